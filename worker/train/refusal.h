// An error that ranks find after they have met is reported once, by the first rank that has found
// it, whether all of them find it or one alone. The others are silent. Under a launcher they end as
// its victims, after it; without one all end by the same code, once all have spoken.
#pragma once

#include <string>

#include "common/error.h"
#include "worker/dist/group.h"

namespace ddp::worker {

/// Thrown on a rank whose problem was reported already, by another rank or by itself. The one who
/// catches it prints nothing.
class Refused : public Error {
 public:
  explicit Refused(int code);
};

/// Leaves by kLostPeer after the rank whose failure it is, while that one leaves with its own code:
/// a busy machine may see this rank end first, and its code says that it is a victim. Blocks: until
/// that rank has left. Errors: Refused.
[[noreturn]] void leave_as_victim(Group& group);

/// `problem` is what this rank found; "": nothing. All ranks call it. Blocks: until all have, and
/// on the victims until the rank that speaks has left. Errors: UsageError when alone; Refused;
/// PeerError.
void fail_together(Group& group, const std::string& problem);

/// The same for a problem that a rank finds outside a collective, wherever the others are: rank 0
/// reports it at once, also for every rank that has found the same. Blocks: two seconds for rank
/// 0's words, then as fail_together().
/// Errors: UsageError when alone, or when `group` is abandoned; Refused.
[[noreturn]] void refuse_here(Group& group, const std::string& problem);

/// What `action` refuses by a UsageError; "": nothing.
template <typename Action>
std::string problem_of(const Action& action) try {
  action();
  return "";
} catch (const UsageError& error) {
  return error.what();
}

}  // namespace ddp::worker
