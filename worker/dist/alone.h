// A world of one: every collective is its own result.
#pragma once

#include <memory>

#include "worker/dist/group.h"

namespace ddp::worker {

std::unique_ptr<Group> make_alone();

}  // namespace ddp::worker
