// What the launcher cannot do without, asked before anything else: an unclear message of a later
// call is worse than a clear one of ours.
#pragma once

namespace ddp::launcher {

/// Errors: SystemError where /proc is not mounted, or the working directory has been removed.
void run_startup_checks();

}  // namespace ddp::launcher
