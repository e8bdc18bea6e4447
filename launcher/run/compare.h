// `ddp-launch compare RUN RUN... [--html FILE]`: what came of several runs, from their directories.
#pragma once

#include "launcher/plan/options.h"

namespace ddp::launcher {

/// Prints the table of options.compared and writes options.html where it is wanted. Returns the
/// exit code. Errors: UsageError for what is not a run's directory; SystemError for a page that
/// cannot be written.
int compare_runs(const Options& options);

}  // namespace ddp::launcher
