// `ddp-launch compare RUN RUN... [--html FILE]`: the results of several runs, from their
// directories.
#pragma once

#include <string>

#include "launcher/plan/command_line/options.h"

namespace ddp::launcher {

/// Writes options.html, if given. Returns the table of options.compared. Errors: UsageError for a
/// directory that is not a run's; SystemError when the page cannot be written.
std::string compare_runs(const Options& options);

}  // namespace ddp::launcher
