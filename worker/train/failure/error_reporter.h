// Reports the error that ends a worker, whichever thread throws it: prints it, writes it to the
// launcher's error file, and exits with the error's code.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"

namespace ddp::worker {

/// Each field is set as soon as its value is known. The one object is never destroyed, because
/// threads of libraries live until the very end.
struct ErrorReporter {
  std::string program = "ddp-worker";
  std::string error_file;       // empty: none was asked for
  int rank = -1;                // not known yet
  bool may_leave_main = false;  // an exception that leaves main is an error of the user's program

  /// Prints the error and writes the error file at once. Then adds the frames of user_frames(),
  /// which take longer: the launcher may not leave time for them. Returns the exit code.
  int print(const Error& error, const std::vector<const void*>& stack = {}) const;
  /// Only writes the error file: another rank prints the error for all.
  void record(const Error& error) const;
};

ErrorReporter& error_reporter();

/// From now on an exception that nobody catches, in any thread, or that leaves a noexcept function,
/// is reported by error_reporter() and ends the process without a core file.
void report_on_terminate();

/// From now on the first exception about a lost GPU (is_lost_device()) is reported in the same way
/// as soon as it is thrown: unwinding would free tensors on that GPU, and an exception of a
/// destructor would hide the cause. (With `may_leave_main` the exception is thrown, and reported
/// when the process ends.) Call it once the device is chosen: before that, a failing GPU gets an
/// error with advice.
void report_lost_gpus();

}  // namespace ddp::worker
