// An exception that nothing caught, as one of ours: with the exit code of the rank, and a text that
// says what it is.
#pragma once

#include <exception>
#include <string>

#include "common/error.h"

namespace ddp::worker {

/// What a Python script leaves with, too, when nobody catches its exception.
inline constexpr int kUncaught = 1;

/// One of ours stays as it is. What c10d, gloo or NCCL says of a lost peer is 97, another error of
/// LibTorch and a lack of memory 125. All else is an exception of the program's own (of its model,
/// data set, loss or hook): kUncaught, and its type stands before its text.
Error as_error(const std::exception& error);

/// The same for an exception that ends the process by std::terminate, in whatever thread: a lost
/// peer is 97, all else 125. One that may have left main is as in as_error(). To be called by the
/// handler.
Error as_terminating_error(bool may_have_left_main = false);

}  // namespace ddp::worker
