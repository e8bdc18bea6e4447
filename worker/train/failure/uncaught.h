// An exception that nothing caught, as one of ours: with the exit code of the rank, and a text that
// says what it is.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"

namespace ddp::worker {

/// What a Python script leaves with, too, when nobody catches its exception.
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

/// To be thrown on where LibTorch fails in code of the program's own (its model, loss, metric,
/// augmentation, optimizer or hook): an OwnError, its type before its text, as for shapes that do
/// not match. A lost peer, a lack of memory and a failing device are not the program's: they go on
/// as they are.
[[noreturn]] void throw_as_own(const c10::Error& error);

/// Whether CUDA says by `code` (a cudaError_t) that a device has failed for good: it gives this
/// process that error for whatever comes. A kernel did what it must not, say (a device-side
/// assert).
bool is_lost_device(int code);

/// To be called where an exception is being handled that is not an std::exception: an exception of
/// the program's own as in as_error(). Its value is shown where it is a text or an int.
Uncaught as_other_error();

/// One of ours stays as it is. What c10d, gloo or NCCL says of a lost peer is 97, another error of
/// LibTorch and a lack of memory 125. All else is an exception of the program's own (of its model,
/// data set, loss or hook): kUncaught, its type before its text, with its stack and its
/// causes (std::nested_exception). A text ends after 16 KiB.
Uncaught as_error(const std::exception& error);

/// The same for an exception that ends the process by std::terminate, in whatever thread: a lost
/// peer is 97, all else 125, with its stack. One that may have left main is as in as_error(). To be
/// called by the handler: all of such a program is its own, so throw_as_own() holds for it too.
Uncaught as_terminating_error(bool may_have_left_main = false);

}  // namespace ddp::worker
