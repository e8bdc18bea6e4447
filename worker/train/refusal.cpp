#include "worker/train/refusal.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "worker/dist/polling.h"
#include "worker/train/failure/error_reporter.h"

namespace ddp::worker {
namespace {

constexpr const char* kSaid = "refused/said";          // what rank 0 reports
constexpr const char* kSpoken = "refused/spoken";      // how many ranks have nothing more to report
constexpr std::chrono::seconds kSameFindings{2};       // for ranks that find the same
constexpr std::chrono::milliseconds kOthersGone{200};  // for the others to leave

template <typename IsThere>
bool wait_for(IsThere is_there) {
  return poll_until(std::chrono::steady_clock::now() + kSameFindings, is_there);
}

/// mpirun ends all ranks with the first that fails, so none leaves before all have reported. Rank 0
/// serves the store and leaves last, because a client prints its stack when its server is gone.
void leave_together(Group& group) try {
  c10d::Store& store = *group.store();
  store.add(kSpoken, 1);
  (void)wait_for([&] { return store.add(kSpoken, 0) >= group.world_size(); });
  if (group.is_root()) ::poll(nullptr, 0, static_cast<int>(kOthersGone.count()));
} catch (const c10::Error&) {
  return;  // rank 0 has left
}

/// Leaves, once it is decided who reports.
[[noreturn]] void leave(Group& group, const std::string& problem, bool speaks) {
  if (speaks) (void)error_reporter().print(UsageError(problem));
  if (group.rank_0_serves_store()) leave_together(group);
  if (speaks || group.rank_0_serves_store()) throw AlreadyReported(exit_code::kUsage);
  leave_as_victim(group);
}

}  // namespace

AlreadyReported::AlreadyReported(int code) : Error("this is said", code) {}

void leave_as_victim(Group& group) {
  try {
    (void)gather_texts(group, "");
  } catch (const PeerError&) {
    // As expected: the rank that has failed is gone.
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
  const bool is_said = problem.empty() || (!is_first && problem.starts_with(*first));
  leave(group, problem, !is_said);
}

void refuse_here(Group& group, const std::string& problem) {
  c10d::Store* const store = group.store();
  if (store == nullptr || group.is_abandoned()) throw UsageError(problem);
  bool is_said = false;
  try {
    if (group.is_root()) store->set(kSaid, problem);
    is_said = !group.is_root() && wait_for([&] { return store->check({kSaid}); }) &&
              problem.starts_with(store->get_to_str(kSaid));
  } catch (const c10::Error&) {
    // The rank that serves the store is gone, so this rank reports.
  }
  leave(group, problem, !is_said);
}

}  // namespace ddp::worker
