// Where an exception was thrown. LibTorch's exceptions carry a backtrace, others do not, and once
// an exception is caught its stack is gone. So this file puts functions of its own in place of
// __cxa_throw, by which every `throw` begins, also in shared libraries (std::vector::at), and of
// __cxa_init_primary_exception, by which make_exception_ptr does. They keep the return addresses of
// the process's last throws: a walk over the stack, without a look-up of names and without memory.
// Promises: an exception is as it would be without this file, and a sanitizer's own function is
// called too.
// Traps: libstdc++.so calls our functions, because the linker exports symbols that a shared library
// defines. A libstdc++ that is linked statically or by -Bsymbolic does not: then nothing is known.
// The walk passes the handler, at which a throw alone would stop, and goes up to 32 frames: those
// must be unwindable too.
#pragma once

#include <typeinfo>
#include <vector>

namespace ddp::worker {

/// The return addresses of the place where the exception was first thrown, or made by
/// make_exception_ptr, innermost first, in whatever thread. `object` is the address of the whole
/// caught exception, which must have been thrown; `type` is its type. Empty: not known, because
/// hundreds of others have been thrown since.
std::vector<const void*> throw_trace(const void* object, const std::type_info& type);

/// From now on `watch` is called for every `throw`, in whatever thread, before anything is unwound:
/// with the address of the exception, which it may read, and its type. It may end the process.
void watch_throws(void (*watch)(const void* object, const std::type_info& type) noexcept);

}  // namespace ddp::worker
