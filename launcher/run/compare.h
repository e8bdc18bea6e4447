// `ddp-launch compare RUN RUN... [--html FILE]`: what came of several runs, from their directories.
#pragma once

#include <string>

#include "launcher/plan/command_line/options.h"

namespace ddp::launcher {

/// Writes options.html where it is wanted. Returns the table of options.compared. Errors:
/// UsageError for what is not a run's directory; SystemError for a page that cannot be written.
std::string compare_runs(const Options& options);

}  // namespace ddp::launcher
