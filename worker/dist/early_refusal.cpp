#include "worker/dist/early_refusal.h"

#include <poll.h>

#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "common/error.h"
#include "worker/dist/agreement.h"
#include "worker/dist/store.h"

namespace ddp::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kRefused = "refused";
constexpr seconds kPatience{10};  // ranks of one launcher start together
constexpr seconds kEnd{5};        // of this rank, by its launcher, once rank 0 has ended
constexpr milliseconds kPause{10};

bool wait_for(seconds limit, const std::function<bool()>& is_there) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!is_there()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    ::poll(nullptr, 0, static_cast<int>(kPause.count()));
  }
  return true;
}

}  // namespace

bool is_said_by_rank_0(const WorkerIdentity& self, const std::string& problem) try {
  if (self.world_size == 1 || !self.agent_store) return false;
  const OpenStore open = open_store(self, kPatience);
  const auto store = store_of_round(self, open);
  if (self.rank == 0) {
    store->set(kRefused, problem);
    (void)store->check({kRefused});  // it is delivered once the answer behind it is here
    return false;
  }
  const std::string joined = answer_key(kJoin, 0);
  const bool is_heard =
      wait_for(kPatience, [&] { return store->check({kRefused}) || store->check({joined}); });
  if (!is_heard || !store->check({kRefused}) || store->get_to_str(kRefused) != problem)
    return false;
  (void)wait_for(kEnd, [] { return false; });
  return true;
} catch (const PeerError&) {
  return false;
} catch (const c10::Error&) {
  return false;
}

}  // namespace ddp::worker
