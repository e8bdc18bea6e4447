#include "worker/train/uncaught.h"

#include <cxxabi.h>
#include <sys/prctl.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <typeinfo>

#include "worker/dist/peer_call.h"
#include "worker/train/own_frames.h"

namespace ddp::worker {
namespace {

std::string demangled(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return name == nullptr ? type.name() : name.get();
}

std::string thread_name() {
  std::array<char, 17> name{};
  ::prctl(PR_GET_NAME, name.data());
  return name.data();
}

std::string with_type(const std::string& type, const std::string& text) {
  return type + (text.empty() ? "" : ": " + text);
}

/// Trap: only that of an accelerator has a type of its own. The host's allocator is the one place
/// that is told by its text.
bool is_lack_of_memory(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         error.msg().find("DefaultCPUAllocator") != std::string::npos;
}

/// Of a program whose main thread is its own from end to end.
Uncaught as_own_error(const std::exception& error) {
  const auto* const torch = dynamic_cast<const c10::Error*>(&error);
  if (torch == nullptr) return as_error(error);
  try {
    throw_as_own(*torch);
  } catch (const std::exception& own) {
    return as_error(own);
  }
}

/// Of an int that was thrown, say, its type is all that is known.
Uncaught explain(const std::string& where, const std::type_info* thrown) {
  return {SystemError(where + (thrown == nullptr ? "unknown exception" : demangled(*thrown)))};
}

}  // namespace

void throw_as_own(const c10::Error& error) {
  if (is_peer_error(error) || is_lack_of_memory(error) ||
      dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr)
    throw;
  throw OwnError(with_type(demangled(typeid(error)), message_of(error)), stack_of(error));
}

Uncaught as_error(const std::exception& error) {
  if (const auto* const own = dynamic_cast<const OwnError*>(&error)) return {*own, own->stack()};
  if (const auto* const ours = dynamic_cast<const Error*>(&error)) return {*ours};
  if (is_peer_error(error)) return {PeerError("lost a peer: " + message_of(error))};
  if (dynamic_cast<const c10::Error*>(&error) != nullptr)
    return {SystemError("LibTorch: " + message_of(error))};
  const std::string type = demangled(typeid(error));
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {SystemError("out of memory (" + type + ")")};
  return {Error(with_type(type, error.what()), kUncaught), stack_of(error)};
}

Uncaught as_terminating_error(bool may_have_left_main) {
  const std::string where = "std::terminate in thread " + thread_name() + ": ";
  const std::exception_ptr current = std::current_exception();
  if (current == nullptr) return {SystemError(where + "no exception is under way")};
  const std::type_info* const thrown = abi::__cxa_current_exception_type();
  try {
    std::rethrow_exception(current);
  } catch (const PeerError& error) {
    return {Error((may_have_left_main ? "" : where) + error.what(), error.code())};
  } catch (const std::exception& error) {
    if (may_have_left_main) return as_own_error(error);
    const std::string text = where + with_type(demangled(typeid(error)), message_of(error));
    if (is_peer_error(error)) return {PeerError(text)};
    return {SystemError(text), stack_of(error)};
  } catch (...) {
    return explain(where, thrown);
  }
}

}  // namespace ddp::worker
