// `ddp-launch warm [--status|--stop]`: the Python processes that wait for this user's next job.
#pragma once

#include <string>

#include "common/node/environment.h"
#include "launcher/plan/command_line/verbs.h"

namespace ddp::launcher {

/// Lists them, or ends them and says which. Blocks: as WarmPool::list() and stop().
std::string answer_warm(const VerbRequest& request, const Environment& environment);

}  // namespace ddp::launcher
