// Where an exception was thrown. LibTorch's carry a backtrace, others know nothing of it, and once
// one is caught the stack is gone. So this library puts itself before __cxa_throw, by which every
// `throw` begins, also of shared libraries (std::vector::at), and __cxa_init_primary_exception, by
// which make_exception_ptr does, and keeps the return addresses of the process's last ones: a walk
// over the stack, no look-up of names, no memory.
// Promises: what is thrown is as without it, and a sanitizer that is there, too, hears of it.
// Traps: libstdc++.so calls our function, as the linker exports symbols that a shared library
// defines, too. A libstdc++ linked statically or by -Bsymbolic does not: then nothing is known. The
// walk goes above the handler, up to 32 frames, where a throw alone would not look: it needs frames
// that can be unwound there, too.
#pragma once

#include <typeinfo>
#include <vector>

namespace ddp::worker {

/// The return addresses of the place where that exception was thrown first, or made by
/// make_exception_ptr, innermost first, in whatever thread. `object` is the address of the whole
/// caught exception, whose type is `type`; it must have been thrown. Empty: not known, as hundreds
/// of others have been thrown since.
std::vector<const void*> throw_trace(const void* object, const std::type_info& type);

/// From now on `watch` is called for every `throw`, in whatever thread, before anything is unwound:
/// with the address of the exception, which it may read, and its type. It may end the process.
void watch_throws(void (*watch)(const void* object, const std::type_info& type) noexcept);

}  // namespace ddp::worker
