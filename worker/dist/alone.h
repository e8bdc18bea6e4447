// A world of one: every collective is its own result. It may play one rank of a larger world, for a
// debugger: then its data, seeds and rates are that rank's.
#pragma once

#include <memory>

#include "worker/dist/group.h"

namespace ddp::worker {

std::unique_ptr<Group> single_process_group(int rank = 0, int world_size = 1);

}  // namespace ddp::worker
