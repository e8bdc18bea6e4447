// What every rank finds wrong before a training begins, or one of them alone, is said once: by the
// first rank that has found it. The others end as its victims, after it and without a word.
#pragma once

#include <string>

#include "common/error.h"
#include "worker/dist/group.h"

namespace ddp::worker {

/// Of a rank whose words another one has said. Nothing is to be printed.
class Refused : public Error {
 public:
  Refused();
};

/// `problem` is what this rank found; "": nothing. All ranks call it. Blocks: until all have, and
/// on the victims until the rank that speaks has left. Errors: UsageError on that one, and on ranks
/// that have something else to say; Refused on the others; PeerError.
void refuse_once(Group& group, const std::string& problem);

/// What `action` refuses by a UsageError; "": nothing.
template <typename Action>
std::string problem_of(const Action& action) try {
  action();
  return "";
} catch (const UsageError& error) {
  return error.what();
}

}  // namespace ddp::worker
