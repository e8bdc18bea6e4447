#include "worker/train/failure/uncaught.h"

#include <cxxabi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <typeinfo>

#include "worker/dist/peer_call.h"
#include "worker/train/failure/lack_of_memory.h"
#include "worker/train/failure/throw_trace.h"
#include "worker/train/failure/user_frames.h"

namespace ddp::worker {
namespace {

/// Advice for a lack of memory.
constexpr const char* kSmallerBatch =
    "A smaller batch for each rank takes less of it (data.batch_per_rank); with as much more of "
    "train.accumulate the whole batch stays what it is.";

/// Advice for a lost device; kernels run asynchronously.
constexpr const char* kLaterThanItsCause =
    "The GPU does nothing more for this process. Its cause may have been begun earlier than what "
    "fails here: CUDA_LAUNCH_BLOCKING=1 shows it.";

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

std::string shortened(const std::string& text) {
  constexpr std::size_t kLongest = 16 << 10;
  if (text.size() <= kLongest) return text;
  return text.substr(0, kLongest) + "... (" + std::to_string(text.size()) + " bytes)";
}

std::string text_of(const std::exception& error) {
  const char* const text = error.what();
  return text == nullptr ? "" : shortened(text);
}

/// The name of its type; for std::throw_with_nested's own type, that of the type inside.
std::string type_of(const std::exception& error) {
  constexpr std::string_view kNested = "std::_Nested_exception<";
  const std::string type = demangled(typeid(error));
  if (!type.starts_with(kNested) || !type.ends_with('>')) return type;
  return type.substr(kNested.size(), type.size() - kNested.size() - 1);
}

std::string causes_of(const std::exception& error);

std::string explain(const std::type_info* thrown) {
  return thrown == nullptr ? "unknown exception" : demangled(*thrown);
}

/// Type and text of an exception, and a line for each of its causes (std::nested_exception), the
/// direct one first.
std::string describe_exception(const std::exception_ptr& thrown) {
  const std::type_info* const type = thrown.__cxa_exception_type();
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return with_type(type_of(error), text_of(error)) + causes_of(error);
  } catch (const std::string& text) {
    return with_type("std::string", shortened(text));
  } catch (const char* text) {
    return with_type("char const*", text == nullptr ? "" : shortened(text));
  } catch (int number) {
    return with_type("int", std::to_string(number));
  } catch (...) {
    return explain(type);
  }
}

std::string causes_of(const std::exception& error) {
  const auto* const nested = dynamic_cast<const std::nested_exception*>(&error);
  if (nested == nullptr || nested->nested_ptr() == nullptr) return "";
  return "\n  caused by " + describe_exception(nested->nested_ptr());
}

std::string advice_for(const c10::Error& error) {
  if (is_lack_of_memory(error)) return kSmallerBatch;
  const auto* const device = dynamic_cast<const c10::AcceleratorError*>(&error);
  return device != nullptr && is_lost_device(device->get_error_code()) ? kLaterThanItsCause : "";
}

/// As as_error(), for an exception that left the main function of the user's program.
Uncaught as_own_error(const std::exception& error) {
  const auto* const torch = dynamic_cast<const c10::Error*>(&error);
  if (torch == nullptr) return as_error(error);
  try {
    throw_as_user_code_error(*torch);
  } catch (const std::exception& own) {
    return as_error(own);
  }
}

}  // namespace

// Codes after which a process cannot use CUDA any more: those of which the manual says so, those of
// broken memory and links, and the unknown error (cudaError_t, driver_types.h).
bool is_lost_device(int code) {
  constexpr std::array kCodes{
      214,  // cudaErrorECCUncorrectable
      220,  // cudaErrorNvlinkUncorrectable
      226,  // cudaErrorContained
      700,  // cudaErrorIllegalAddress
      702,  // cudaErrorLaunchTimeout
      709,  // cudaErrorContextIsDestroyed
      710,  // cudaErrorAssert
      714,  // cudaErrorHardwareStackError
      715,  // cudaErrorIllegalInstruction
      716,  // cudaErrorMisalignedAddress
      717,  // cudaErrorInvalidAddressSpace
      718,  // cudaErrorInvalidPc
      719,  // cudaErrorLaunchFailure
      721,  // cudaErrorTensorMemoryLeak
      810,  // cudaErrorMpsClientTerminated
      911,  // cudaErrorExternalDevice
      999,  // cudaErrorUnknown
  };
  return std::ranges::find(kCodes, code) != kCodes.end();
}

void throw_as_user_code_error(const c10::Error& error) {
  if (is_peer_error(error) || is_lack_of_memory(error) ||
      dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr)
    throw;
  throw UserCodeError(with_type(demangled(typeid(error)), message_of(error)), stack_of(error));
}

Uncaught as_error(const std::exception& error) {
  if (const auto* const own = dynamic_cast<const UserCodeError*>(&error))
    return {*own, own->stack()};
  if (const auto* const ours = dynamic_cast<const Error*>(&error)) return {*ours};
  if (is_peer_error(error)) return {PeerError("lost a peer: " + message_of(error))};
  if (const auto* const torch = dynamic_cast<const c10::Error*>(&error)) {
    return {SystemError(message_with_advice(*torch, advice_for(*torch)))};
  }
  const std::string type = type_of(error);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {SystemError("out of memory (" + type + ")"), stack_of(error)};
  return {Error(with_type(type, text_of(error)) + causes_of(error), kUncaught), stack_of(error)};
}

Uncaught as_other_error() {
  const std::exception_ptr current = std::current_exception();
  const std::type_info* const type = current.__cxa_exception_type();
  // An exception_ptr of libstdc++ holds nothing but the address of the object.
  static_assert(sizeof(current) == sizeof(void*));
  const void* object = nullptr;
  std::memcpy(&object, &current, sizeof object);
  const bool is_known = object != nullptr && type != nullptr;
  return {Error(describe_exception(current), kUncaught),
          is_known ? throw_trace(object, *type) : std::vector<const void*>()};
}

Uncaught as_terminating_error(bool may_have_left_main) {
  const std::string where = "std::terminate in thread " + thread_name() + ": ";
  const std::exception_ptr current = std::current_exception();
  if (current == nullptr) return {SystemError(where + "no exception is under way")};
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
    const Uncaught other = as_other_error();
    if (may_have_left_main) return other;
    return {SystemError(where + other.error.what()), other.stack};
  }
}

}  // namespace ddp::worker
