// How a worker leaves with an error, whichever thread throws it: it prints the error, writes it to
// the launcher's error file, and exits with the code of the error's kind.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"

namespace ddp::worker {

/// Each field is filled in as soon as its value is known. Never destroyed: threads of libraries
/// live to the very end.
struct ErrorReporter {
  std::string program = "ddp-worker";
  std::string error_file;       // empty: none was asked for
  int rank = -1;                // none yet
  bool may_leave_main = false;  // an exception that leaves main is the program's own, not a bug

  /// Prints and writes the error at once. Then adds the frames that own_frames() finds: a teardown
  /// of the whole job may leave no time for them. Returns the exit code.
  int print(const Error& error, const std::vector<const void*>& stack = {}) const;
  /// Writes the error without printing it: another rank prints it for all.
  void record(const Error& error) const;
};

ErrorReporter& error_reporter();

/// From now on an exception that leaves a thread of a library or of a user's, or a noexcept
/// function, ends the process by error_reporter(), without a core file.
void report_on_terminate();

/// From now on so does the first exception that reports a lost GPU (is_lost_device()), where it is
/// thrown: unwinding would free tensors on that GPU, and what a destructor throws would hide it.
/// (If an exception may leave main, this one is thrown, and is reported in any case.) Call it when
/// the device is chosen: before that a GPU that fails is refused with what to do.
void report_lost_gpus();

}  // namespace ddp::worker
