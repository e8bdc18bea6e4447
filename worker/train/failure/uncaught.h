// Turns any exception that ends a rank into one of our errors, with the rank's exit code and a text
// that describes the exception.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"

namespace ddp::worker {

/// As of a Python script that ends with an exception.
inline constexpr int kUncaught = 1;

/// The error that ends a rank, and the stack on which it was thrown (stack_of()); empty if the
/// stack would not help the user. user_frames() turns addresses into names, which may take seconds.
struct Uncaught {
  Error error;
  std::vector<const void*> stack{};
};

/// An error that LibTorch has thrown in a call from the user's own code.
class UserCodeError : public Error {
 public:
  UserCodeError(const std::string& message, std::vector<const void*> stack)
      : Error(message, kUncaught), stack_(std::move(stack)) {}
  [[nodiscard]] const std::vector<const void*>& stack() const { return stack_; }

 private:
  std::vector<const void*> stack_;
};

/// Call it in a handler around the user's own code (model, loss, metric, augmentation, optimizer or
/// hook). Throws an UserCodeError, with the error's type before its text: for shapes that do not
/// match, say. A lost peer, a lack of memory and a failing device are not the program's fault:
/// rethrows those unchanged.
[[noreturn]] void throw_as_user_code_error(const c10::Error& error);

/// Whether `code` (a cudaError_t) means that a device has failed permanently: from now on every
/// CUDA call of this process fails. A device-side assert in a kernel is enough.
bool is_lost_device(int code);

/// Describes the exception being handled, which is not a std::exception: it is the program's own,
/// as in as_error(). Shows its value if that is a text or an int.
Uncaught as_other_error();

/// An Error is returned unchanged. A lost peer, as c10d, gloo or NCCL throws it, gets code 97;
/// other errors of LibTorch and a lack of memory 125. All else is an exception of the user's own
/// code: code kUncaught, its type before its text, with its stack and its causes
/// (std::nested_exception). Cuts texts at 16 KiB.
Uncaught as_error(const std::exception& error);

/// The same for an exception that ends the process by std::terminate, in any thread; call it in the
/// terminate handler. A lost peer gets code 97, all else 125, with the stack. If the exception may
/// have left main, it is treated as in as_error(); all code of such a program is the user's, so
/// throw_as_user_code_error() applies, too.
Uncaught as_terminating_error(bool may_have_left_main = false);

}  // namespace ddp::worker
