// Reports an error that ranks find after they have met, once: the first rank that has found it
// prints it, whether all ranks find it or one alone. The other ranks are silent. Under a launcher
// they end after it, as its victims; without one all leave with the same code, once all have
// reported.
#pragma once

#include <string>

#include "common/error.h"
#include "worker/dist/group.h"

namespace ddp::worker {

/// Thrown on a rank whose problem has been reported, by another rank or by itself. The code that
/// catches it prints nothing.
class AlreadyReported : public Error {
 public:
  explicit AlreadyReported(int code);
};

/// Leaves with kLostPeer, after the rank that has failed and leaves with its own code. A busy
/// machine may see this rank end first; kLostPeer then says that it is a victim. Blocks: until that
/// rank has left. Errors: AlreadyReported.
[[noreturn]] void leave_as_victim(Group& group);

/// `problem` is what this rank found; "": nothing. Returns only if no rank has found one. All ranks
/// call it. Blocks: until all have, and on the victims until the rank that reports has left.
/// Errors: UsageError when alone; AlreadyReported; PeerError.
void fail_together(Group& group, const std::string& problem);

/// As fail_together(), for a problem that a rank finds outside a collective, wherever the other
/// ranks are: rank 0 reports it at once, also for every rank that has found the same. Blocks: at
/// most two seconds for rank 0's report, then as fail_together().
/// Errors: UsageError when alone, or when `group` is abandoned; AlreadyReported.
[[noreturn]] void refuse_here(Group& group, const std::string& problem);

/// The message of the UsageError that `action` throws; "": it throws none.
template <typename Action>
std::string problem_of(const Action& action) try {
  action();
  return "";
} catch (const UsageError& error) {
  return error.what();
}

}  // namespace ddp::worker
