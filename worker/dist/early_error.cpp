#include "worker/dist/early_error.h"

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "common/error.h"
#include "worker/dist/agreement.h"
#include "worker/dist/error_server.h"
#include "worker/dist/polling.h"
#include "worker/dist/store.h"
#include "worker/dist/store_answer.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// If the launcher serves the store:
constexpr const char* kEarlyError = "refused";
constexpr seconds kStoreTimeout{5};    // the store starts before its ranks
constexpr seconds kReportTimeout{10};  // ranks of one launcher start together
constexpr seconds kStoppedWithin{
    5};  // the launcher stops this rank within it, once rank 0 has exited

// Else rank 0 waits until the ranks that could not reach it have printed their own error:
constexpr seconds kRank0Timeout{5};  // the others wait for a rank 0 that starts later
constexpr seconds kServeFor{6};      // rank 0 waits for others that start later
static_assert(kRank0Timeout < kServeFor && kServeFor < kLeaveWithin);

/// On rank 0: puts its problem into the store.
void report_in_store(const WorkerIdentity& self, const std::string& problem) try {
  const OpenStore open = open_store(self, kStoreTimeout);
  const auto store = store_of_round(self, open);
  store->set(kEarlyError, problem);
  (void)store->check({kEarlyError});  // the answer proves that the value has arrived
} catch (const PeerError&) {
  return;
} catch (const c10::Error&) {
  return;
}

/// On the other ranks: whether rank 0 has reported the same problem.
bool is_reported_in_store(const WorkerIdentity& self, const std::string& problem) try {
  const OpenStore open = open_store(self, kStoreTimeout);
  const auto store = store_of_round(self, open);
  const std::string joined = text_key(kJoinKey, 0);
  (void)poll_until(Clock::now() + kReportTimeout,
                   [&] { return store->check({kEarlyError}) || store->check({joined}); });
  return store->check({kEarlyError}) && store->get_to_str(kEarlyError) == problem;
} catch (const PeerError&) {
  return false;
} catch (const c10::Error&) {
  return false;
}

/// Asks at the store's address why rank 0 does not join. If a store answers, rank 0 does join.
StoreAnswer ask_rank_0(const WorkerIdentity& self) try {
  const StoreAddresses addresses(self);
  const Clock::time_point deadline = Clock::now() + kRank0Timeout;
  StoreAnswer found;
  (void)poll_until(deadline, [&] {
    found = addresses.ask(deadline);
    return found.error || found.local_address;
  });
  return found;
} catch (const PeerError&) {
  return {};
}

bool print_once_by_store(const WorkerIdentity& self,
                         const std::string& problem,
                         const std::function<void()>& print) {
  const bool is_reported = self.rank != 0 && is_reported_in_store(self, problem);
  if (!is_reported) print();
  if (self.rank == 0) report_in_store(self, problem);
  if (is_reported) (void)poll_until(Clock::now() + kStoppedWithin, [] { return false; });
  return !is_reported;
}

bool print_once_by_socket(const WorkerIdentity& self,
                          const std::string& problem,
                          const std::function<void()>& print) {
  if (self.rank == 0) {
    print();  // first: a rank that has read it may exit, and then mpirun ends this rank
    serve_error(self, problem, kServeFor);
    return true;
  }
  const StoreAnswer found = ask_rank_0(self);
  const bool is_reported = found.error == problem.substr(0, kLongestError);
  if (!is_reported) print();
  if (found.error) (void)leave_with_rank_0(found.to_rank_0, self);
  return !is_reported;
}

}  // namespace

bool print_once(const WorkerIdentity& self,
                const std::string& problem,
                const std::function<void()>& print) {
  if (self.world_size > 1 && self.agent_store) return print_once_by_store(self, problem, print);
  if (self.world_size > 1) return print_once_by_socket(self, problem, print);
  print();
  return true;
}

}  // namespace ddp::worker
