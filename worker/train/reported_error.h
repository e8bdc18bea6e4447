// Reports an error that ranks find after they have joined, only once: the lowest rank that has
// found it prints it, whether one rank has found it or all. Under a launcher the other ranks exit
// after it, as its victims; without one all exit with the same code, once all have reported.
#pragma once

#include <string>

#include "common/error.h"
#include "worker/dist/group.h"

namespace ddp::worker {

/// Thrown on a rank whose problem has been reported, by this rank or another one. The code that
/// catches it prints nothing.
class AlreadyReported : public Error {
 public:
  explicit AlreadyReported(int code);
};

/// Waits until the rank that has failed has exited with its own code, then throws AlreadyReported
/// with kLostPeer. On a busy machine the launcher may still see this rank exit first; kLostPeer
/// then shows that it is a victim.
[[noreturn]] void leave_as_victim(Group& group);

/// `problem` is what this rank has found; "": nothing. Returns only if no rank has found a problem.
/// All ranks call it. Blocks: until all have called it, and on victims until the reporting rank has
/// exited. Errors: UsageError when alone; AlreadyReported; PeerError.
void fail_together(Group& group, const std::string& problem);

/// As fail_together(), but not a collective: for a problem that this rank finds while other ranks
/// may be anywhere. Rank 0 reports it at once, also for other ranks that find the same. Blocks: at
/// most two seconds for rank 0's report, then as fail_together().
/// Errors: UsageError when alone, or when `group` is abandoned; AlreadyReported.
[[noreturn]] void fail_outside_collective(Group& group, const std::string& problem);

/// The message of the UsageError that `action` throws; "" if it throws none.
template <typename Action>
std::string problem_of(const Action& action) try {
  action();
  return "";
} catch (const UsageError& error) {
  return error.what();
}

}  // namespace ddp::worker
