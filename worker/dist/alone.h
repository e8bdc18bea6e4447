// A world of one rank: every collective returns its input. It may play one rank of a larger world,
// for a debugger: then data, seeds and learning rates are those of that rank.
#pragma once

#include <memory>

#include "worker/dist/group.h"

namespace ddp::worker {

std::unique_ptr<Group> single_process_group(int rank = 0, int world_size = 1);

}  // namespace ddp::worker
