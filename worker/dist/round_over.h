// Whether the agent has ended the round. Waits over the store check this, because no connection
// reports that a key will never come.
#pragma once

#include "common/progress/progress_page.h"

namespace ddp::worker {

/// From now on throw_if_round_over() reads `page`, which lives to the end of the process.
void watch_round(const ProgressPage& page);

/// Throws PeerError when the agent has ended the round and this rank may wait for the next one.
void throw_if_round_over();

}  // namespace ddp::worker
