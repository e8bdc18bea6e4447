#include "worker/train/refusal.h"

#include <algorithm>
#include <vector>

namespace ddp::worker {

Refused::Refused() : Error("another rank has said why", exit_code::kLostPeer) {}

void refuse_once(Group& group, const std::string& problem) {
  const std::vector<std::string> problems = gather_texts(group, problem);
  const auto first = std::find_if(
      problems.begin(), problems.end(), [](const std::string& text) { return !text.empty(); });
  if (first == problems.end()) return;
  const bool is_first = problems.size() == 1 || first - problems.begin() == group.rank();
  const bool is_said = problem.empty() || (!is_first && problem.starts_with(*first));
  if (!is_said) throw UsageError(problem);
  try {
    // Ends when the rank that says it has left: it must be the first.
    (void)gather_texts(group, "");
  } catch (const PeerError&) {
    // As expected.
  }
  throw Refused();
}

}  // namespace ddp::worker
