#include "worker/dist/early_refusal.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "common/error.h"
#include "worker/dist/agreement.h"
#include "worker/dist/refusal_server.h"
#include "worker/dist/store.h"
#include "worker/dist/store_probe.h"

namespace ddp::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// With a store of the launcher.
constexpr const char* kRefused = "refused";
constexpr seconds kAgentPatience{10};  // ranks of one launcher start together
constexpr seconds kEnd{5};             // of this rank, by its launcher, once rank 0 has ended

// Without: each lasts longer than what the other side does meanwhile.
constexpr seconds kPatience{5};     // for a rank 0 that starts later
constexpr seconds kServe{6};        // for others that do
constexpr timeval kTogether{7, 0};  // for rank 0, which waits for all

constexpr milliseconds kPause{10};

template <typename IsThere>
bool wait_for(seconds limit, IsThere is_there) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!is_there()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    ::poll(nullptr, 0, static_cast<int>(kPause.count()));
  }
  return true;
}

/// Of rank 0.
void tell_in_store(const WorkerIdentity& self, const std::string& problem) try {
  const OpenStore open = open_store(self, kAgentPatience);
  const auto store = store_of_round(self, open);
  store->set(kRefused, problem);
  (void)store->check({kRefused});  // it is delivered once the answer behind it is here
} catch (const PeerError&) {
  return;
} catch (const c10::Error&) {
  return;
}

/// Of the others. Whether rank 0 has said it.
bool hear_in_store(const WorkerIdentity& self, const std::string& problem) try {
  const OpenStore open = open_store(self, kAgentPatience);
  const auto store = store_of_round(self, open);
  const std::string joined = answer_key(kJoin, 0);
  (void)wait_for(kAgentPatience,
                 [&] { return store->check({kRefused}) || store->check({joined}); });
  return store->check({kRefused}) && store->get_to_str(kRefused) == problem;
} catch (const PeerError&) {
  return false;
} catch (const c10::Error&) {
  return false;
}

/// What rank 0 says where its store would be. A store that answers means that it joins.
StoreProbe hear(const WorkerIdentity& self) try {
  const StoreAddresses addresses(self);
  StoreProbe found;
  (void)wait_for(kPatience, [&] {
    found = addresses.probe();
    return found.refusal || found.local_address;
  });
  return found;
} catch (const PeerError&) {
  return {};
}

/// Rank 0 ends the connection when it has heard it of all.
void leave_with_others(const WorkerIdentity& self, const Descriptor& caller) {
  char nothing = 0;
  confirm_refusal(caller, self.rank);
  (void)::setsockopt(caller.fd(), SOL_SOCKET, SO_RCVTIMEO, &kTogether, sizeof(kTogether));
  (void)::recv(caller.fd(), &nothing, sizeof(nothing), 0);
}

}  // namespace

bool say_once(const WorkerIdentity& self,
              const std::string& problem,
              const std::function<void()>& say) {
  if (self.rank == 0) {
    say();  // first: who has heard of it may leave, and then mpirun ends this rank
    if (self.world_size > 1 && self.agent_store) tell_in_store(self, problem);
    if (self.world_size > 1 && !self.agent_store)
      serve_refusal(self.master_port, problem, self.world_size - 1, kServe);
    return true;
  }
  if (self.agent_store) {
    const bool is_said = hear_in_store(self, problem);
    if (!is_said) say();
    if (is_said) (void)wait_for(kEnd, [] { return false; });
    return !is_said;
  }
  const StoreProbe found = hear(self);
  const bool is_said = found.refusal == problem;
  if (!is_said) say();
  if (found.refusal) leave_with_others(self, found.caller);
  return !is_said;
}

}  // namespace ddp::worker
