#include "worker/train/reported_error.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "worker/dist/polling.h"
#include "worker/train/failure/error_reporter.h"

namespace ddp::worker {
namespace {

constexpr const char* kReported = "refused/said";  // the problem that rank 0 has reported
constexpr const char* kDone = "refused/spoken";    // how many ranks have nothing to report any more
constexpr std::chrono::seconds kSameFindings{2};   // until rank 0 has reported the same problem
constexpr std::chrono::milliseconds kOthersExit{200};  // for the others to exit

template <typename IsThere>
bool wait_for(IsThere is_there) {
  return poll_until(std::chrono::steady_clock::now() + kSameFindings, is_there);
}

/// mpirun ends all ranks when the first one fails, so each waits until all have reported. Rank 0
/// serves the store and exits last, because clients print a stack when the store ends.
void wait_for_reports(Group& group) try {
  c10d::Store& store = *group.store();
  store.add(kDone, 1);
  (void)wait_for([&] { return store.add(kDone, 0) >= group.world_size(); });
  if (group.is_root()) ::poll(nullptr, 0, static_cast<int>(kOthersExit.count()));
} catch (const c10::Error&) {
  return;  // rank 0 has exited
}

/// Reports the problem if this rank `reports`, then throws as fail_together().
[[noreturn]] void leave(Group& group, const std::string& problem, bool reports) {
  if (reports) (void)error_reporter().print(UsageError(problem));
  if (group.rank_0_serves_store()) wait_for_reports(group);
  if (reports || group.rank_0_serves_store()) throw AlreadyReported(exit_code::kUsage);
  leave_as_victim(group);
}

}  // namespace

AlreadyReported::AlreadyReported(int code) : Error("this is said", code) {}

void leave_as_victim(Group& group) {
  try {
    (void)gather_texts(group, "");
  } catch (const PeerError&) {
    // Expected: the rank that has failed has exited.
  }
  throw AlreadyReported(exit_code::kLostPeer);
}

void fail_together(Group& group, const std::string& problem) {
  const std::vector<std::string> problems = gather_texts(group, problem);
  const auto first = std::find_if(
      problems.begin(), problems.end(), [](const std::string& text) { return !text.empty(); });
  if (first == problems.end()) return;
  if (problems.size() == 1) throw UsageError(problem);
  const bool is_first = first - problems.begin() == group.rank();
  const bool is_reported = problem.empty() || (!is_first && problem.starts_with(*first));
  leave(group, problem, !is_reported);
}

void fail_outside_collective(Group& group, const std::string& problem) {
  c10d::Store* const store = group.store();
  if (store == nullptr || group.is_abandoned()) throw UsageError(problem);
  bool is_reported = false;
  try {
    if (group.is_root()) store->set(kReported, problem);
    is_reported = !group.is_root() && wait_for([&] { return store->check({kReported}); }) &&
                  problem.starts_with(store->get_to_str(kReported));
  } catch (const c10::Error&) {
    // The rank that serves the store has exited, so this rank reports.
  }
  leave(group, problem, !is_reported);
}

}  // namespace ddp::worker
