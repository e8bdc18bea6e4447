// How a worker leaves by an error, whichever thread it is thrown in: what went wrong is printed and
// written to the launcher's error file, and the exit code says what kind it was.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"

namespace ddp::worker {

/// Known as soon as they are known. Never destroyed: threads of libraries live to the very end.
struct LastWords {
  std::string program = "ddp-worker";
  std::string error_file;       // empty: none was asked for
  int rank = -1;                // none yet
  bool may_leave_main = false;  // an exception that leaves main is the program's own, not a bug

  /// Prints and writes it at once, and what own_frames() finds behind it, for which a teardown of
  /// the whole job may leave no time. Returns the exit code.
  int print(const Error& error, const std::vector<const void*>& stack = {}) const;
  /// Writes it alone: another rank prints it for all.
  void record(const Error& error) const;
};

LastWords& last_words();

/// An exception that leaves a thread of a library or of a user's, or a function that is noexcept,
/// from now on ends the process by last_words(), without a core file. So does the first one that
/// says of a GPU that it is lost (is_lost_device()), where it is thrown: on the way out tensors
/// would be freed there, and what a destructor throws would be told in its place. (Where an
/// exception may leave main, that one is thrown, and is told all the same.)
void speak_on_terminate();

}  // namespace ddp::worker
