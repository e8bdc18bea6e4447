// Checks what the launcher always needs, before anything else, so that the user gets a clear
// message and not one of a later call.
#pragma once

namespace ddp::launcher {

/// Errors: SystemError where /proc is not mounted, the kernel has no pidfds, or the working
/// directory has been removed.
void run_startup_checks();

}  // namespace ddp::launcher
