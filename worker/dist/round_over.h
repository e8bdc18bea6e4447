// Whether the agent has ended the round. Those who wait for a key of the store check this, because
// nothing else tells them that the key will never come.
#pragma once

#include "common/progress/progress_page.h"

namespace ddp::worker {

/// From now on throw_if_round_over() reads `page`, which lives to the end of the process.
void watch_round(const ProgressPage& page);

/// Throws PeerError when the agent has ended the round and this rank may wait for the next one.
void throw_if_round_over();

}  // namespace ddp::worker
