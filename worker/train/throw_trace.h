// Where an exception was thrown. LibTorch's carry a backtrace, others know nothing of it, and once
// one is caught the stack is gone. So this library puts itself before __cxa_throw, which every
// `throw` of a C++ program calls, also of shared libraries (std::vector::at), and keeps the return
// addresses of the process's last throws: a walk over the stack, no look-up of names, no memory.
// Promises: what is thrown is as without it, and a sanitizer that is there, too, hears of it.
// Trap: shared libraries find it only where the program exports it, as by -rdynamic, which whoever
// links ddp_worker does.
#pragma once

#include <exception>
#include <vector>

namespace ddp::worker {

/// The return addresses of the place where that exception was thrown first, innermost first, in
/// whatever thread. Empty: not known, as it was made without a throw, or hundreds of others have
/// been thrown since.
std::vector<const void*> throw_trace(const std::exception& error);

}  // namespace ddp::worker
