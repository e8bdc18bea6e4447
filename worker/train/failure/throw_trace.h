// Where an exception was thrown. LibTorch's carry a backtrace, others know nothing of it, and once
// one is caught the stack is gone. So this library puts itself before __cxa_init_primary_exception,
// by which libstdc++ begins every `throw` and every make_exception_ptr, also of shared libraries
// (std::vector::at), and keeps the return addresses of the process's last ones: a walk over the
// stack, no look-up of names, no memory.
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

}  // namespace ddp::worker
