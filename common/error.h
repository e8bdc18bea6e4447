// The three exceptions that mean "cannot go on", each with its exit code.
// Outcomes that somebody must react to (a worker that died, a deadline that passed) are values, not
// exceptions. A message says what was tried, on what, why it failed, and what to do.
#pragma once

#include <cerrno>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/exit_code.h"

namespace ddp {

class Error : public std::runtime_error {
 public:
  Error(const std::string& message, int code) : std::runtime_error(message), code_(code) {}
  /// The exit code of the program that ends by this error.
  [[nodiscard]] int code() const { return code_; }

 private:
  int code_;
};

/// A UsageError with more problems shows the first of them and the number of the rest. Code that
/// collects problems may leave the text of the rest empty.
inline constexpr std::size_t kShownProblems = 20;

/// A mistake of the user in a flag, a variable or a line of YAML. Several are shown together, one
/// per line.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(message, exit_code::kUsage) {}
  explicit UsageError(const std::vector<std::string>& messages);
};

/// A call to the system that failed: which call, on which object, and errno's text.
class SystemError : public Error {
 public:
  explicit SystemError(const std::string& message, int code = exit_code::kInternal)
      : Error(message, code) {}
};

/// Another process of the job is gone, silent or never came: which one, during what, after how
/// long.
class PeerError : public Error {
 public:
  explicit PeerError(const std::string& message, int code = exit_code::kLostPeer)
      : Error(message, code) {}
};

/// "pipe2, log pipe of rank 3: Too many open files", from the current errno or the given one.
std::string system_message(const std::string& call, const std::string& object, int error_number);

/// Returns the result of a system call. Errors: SystemError from errno when it is negative.
template <typename Result>
Result check(Result result, const std::string& call, const std::string& object) {
  if (result < 0) throw SystemError(system_message(call, object, errno));
  return result;
}

/// Prints `error` once on stderr, every line after "<program>: ". Returns its exit code.
int print_error(const std::string& program, const std::exception& error);

}  // namespace ddp
