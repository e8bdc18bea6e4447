// Whether the round is over for its agent, for waits over the store: what they wait for does not
// come any more, and no connection tells it.
#pragma once

#include "common/progress/progress_page.h"

namespace ddp::worker {

/// From now on require_round() looks at `page`, which lives to the end of the process.
void watch_round(const ProgressPage& page);

/// Errors: PeerError when the agent has ended the round, and this rank may wait for the next one.
void require_round();

}  // namespace ddp::worker
