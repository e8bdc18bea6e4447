#include "worker/dist/early_refusal.h"

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "common/error.h"
#include "worker/dist/agreement.h"
#include "worker/dist/polling.h"
#include "worker/dist/refusal_server.h"
#include "worker/dist/store.h"
#include "worker/dist/store_probe.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Where the launcher serves the store:
constexpr const char* kRefused = "refused";
constexpr seconds kStorePatience{5};   // the store starts before its ranks
constexpr seconds kAgentPatience{10};  // ranks of one launcher start together
constexpr seconds kEnd{5};             // until the launcher ends this rank, once rank 0 has ended

// Elsewhere rank 0 stays until the ranks that could not reach it have printed their own error:
constexpr seconds kPatience{5};  // the others wait for a rank 0 that starts later
constexpr seconds kServe{6};     // rank 0 waits for others that start later
static_assert(kPatience < kServe && kServe < kLeaveWithin);

/// Rank 0 puts its problem into the store.
void tell_in_store(const WorkerIdentity& self, const std::string& problem) try {
  const OpenStore open = open_store(self, kStorePatience);
  const auto store = store_of_round(self, open);
  store->set(kRefused, problem);
  (void)store->check({kRefused});  // the answer proves that the value has arrived
} catch (const PeerError&) {
  return;
} catch (const c10::Error&) {
  return;
}

/// On the other ranks: whether rank 0 has reported the same problem.
bool hear_in_store(const WorkerIdentity& self, const std::string& problem) try {
  const OpenStore open = open_store(self, kStorePatience);
  const auto store = store_of_round(self, open);
  const std::string joined = answer_key(kJoinQuestion, 0);
  (void)poll_until(Clock::now() + kAgentPatience,
                   [&] { return store->check({kRefused}) || store->check({joined}); });
  return store->check({kRefused}) && store->get_to_str(kRefused) == problem;
} catch (const PeerError&) {
  return false;
} catch (const c10::Error&) {
  return false;
}

/// Asks at the store's address why rank 0 does not join. If a store answers, rank 0 joins.
StoreProbe hear(const WorkerIdentity& self) try {
  const StoreAddresses addresses(self);
  const Clock::time_point deadline = Clock::now() + kPatience;
  StoreProbe found;
  (void)poll_until(deadline, [&] {
    found = addresses.probe(deadline);
    return found.refusal || found.local_address;
  });
  return found;
} catch (const PeerError&) {
  return {};
}

bool say_once_by_store(const WorkerIdentity& self,
                       const std::string& problem,
                       const std::function<void()>& say) {
  const bool is_said = self.rank != 0 && hear_in_store(self, problem);
  if (!is_said) say();
  if (self.rank == 0) tell_in_store(self, problem);
  if (is_said) (void)poll_until(Clock::now() + kEnd, [] { return false; });
  return !is_said;
}

bool say_once_by_socket(const WorkerIdentity& self,
                        const std::string& problem,
                        const std::function<void()>& say) {
  if (self.rank == 0) {
    say();  // first: a rank that has read it may leave, and then mpirun ends this rank
    serve_refusal(self, problem, kServe);
    return true;
  }
  const StoreProbe found = hear(self);
  const bool is_said = found.refusal == problem.substr(0, kLongestRefusal);
  if (!is_said) say();
  if (found.refusal) (void)leave_with_rank_0(found.caller, self);
  return !is_said;
}

}  // namespace

bool print_once(const WorkerIdentity& self,
                const std::string& problem,
                const std::function<void()>& say) {
  if (self.world_size > 1 && self.agent_store) return say_once_by_store(self, problem, say);
  if (self.world_size > 1) return say_once_by_socket(self, problem, say);
  say();
  return true;
}

}  // namespace ddp::worker
