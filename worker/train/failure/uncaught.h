// Turns an exception that nothing caught into one of ours, with the rank's exit code and a text
// that says what it is.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"

namespace ddp::worker {

/// The exit code of a Python script whose exception nobody catches.
inline constexpr int kUncaught = 1;

/// The error that a rank ends by, and the stack on which it was thrown (stack_of()); empty where
/// that stack would not help the user. own_frames() turns it into names, which may take seconds.
struct Uncaught {
  Error error;
  std::vector<const void*> stack{};
};

/// An error of LibTorch that was thrown in a call from the program's own code.
class OwnError : public Error {
 public:
  OwnError(const std::string& message, std::vector<const void*> stack)
      : Error(message, kUncaught), stack_(std::move(stack)) {}
  [[nodiscard]] const std::vector<const void*>& stack() const { return stack_; }

 private:
  std::vector<const void*> stack_;
};

/// Call it where LibTorch fails in code of the program's own (its model, loss, metric,
/// augmentation, optimizer or hook). Throws an OwnError, with the error's type before its text, as
/// for shapes that do not match. A lost peer, a lack of memory and a failing device are not the
/// program's fault: they are thrown on as they are.
[[noreturn]] void throw_as_own(const c10::Error& error);

/// Whether CUDA reports by `code` (a cudaError_t) that a device has failed for good: from then on
/// every call of this process gets that error. A device-side assert of a kernel does it.
bool is_lost_device(int code);

/// Call it while an exception that is not an std::exception is being handled: it is the program's
/// own, as in as_error(). Shows its value if that is a text or an int.
Uncaught as_other_error();

/// One of our errors stays as it is. A lost peer, by what c10d, gloo or NCCL throws, is 97; another
/// error of LibTorch and a lack of memory are 125. All else is an exception of the program's own
/// (of its model, data set, loss or hook): kUncaught, its type before its text, with its stack and
/// its causes (std::nested_exception). A text ends after 16 KiB.
Uncaught as_error(const std::exception& error);

/// The same for an exception that ends the process by std::terminate, in whatever thread: a lost
/// peer is 97, all else 125, with its stack. If it may have left main it is as in as_error(); all
/// code of such a program is its own, so throw_as_own() applies too. Call it in the terminate
/// handler.
Uncaught as_terminating_error(bool may_have_left_main = false);

}  // namespace ddp::worker
