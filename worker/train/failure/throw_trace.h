// Records where exceptions are thrown. LibTorch's exceptions carry a backtrace, others do not, and
// once an exception is caught its stack is gone. So this file replaces __cxa_throw, which every
// `throw` calls, even in shared libraries (std::vector::at), and __cxa_init_primary_exception,
// which make_exception_ptr calls. The replacements record the return addresses of the process's
// last throws by walking the stack, without looking up names and without allocating memory.
// Promises: exceptions behave as without this file, and a sanitizer's replacement is called, too.
// Traps: libstdc++.so calls our functions only because the linker exports symbols that a shared
// library defines. With a libstdc++ that is linked statically or with -Bsymbolic nothing is
// recorded. The walk goes up to 32 frames, even beyond the handler where a throw would stop: those
// frames must be unwindable, too.
#pragma once

#include <typeinfo>
#include <vector>

namespace ddp::worker {

/// The stack on which an exception was first thrown, or made by make_exception_ptr, in any thread:
/// return addresses, innermost first. `object` is the address of the whole exception, which was
/// caught; `type` is its type. Empty: not known, because hundreds of others have been thrown since.
std::vector<const void*> throw_trace(const void* object, const std::type_info& type);

/// From now on `watch` is called for every `throw`, in any thread, before the stack is unwound:
/// with the address of the exception, which it may read, and its type. It may end the process.
void watch_throws(void (*watch)(const void* object, const std::type_info& type) noexcept);

}  // namespace ddp::worker
