// The group of a single process: every collective returns its input at once.
#pragma once

#include <memory>

#include "worker/dist/group.h"

namespace ddp::worker {

/// With a rank of a larger world (--as-rank, for a debugger), data, seeds and learning rates are
/// those of that rank.
std::unique_ptr<Group> single_process_group(int rank = 0, int world_size = 1);

}  // namespace ddp::worker
