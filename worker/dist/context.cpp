#include "worker/dist/context.h"

#include <ATen/Version.h>
#include <torch/csrc/distributed/c10d/debug.h>
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <vector>

#include "common/error.h"
#include "common/log.h"
#include "common/units.h"
#include "worker/dist/alone.h"
#include "worker/dist/gloo_group.h"
#include "worker/dist/peer_call.h"
#include "worker/dist/store.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kNoticeEvery{10};

std::string key_of(int rank) {
  return "here/" + std::to_string(rank);
}

// Waits until every rank has said it is here. Polls by waits of at most 10 s, so that the missing
// ones can be named meanwhile.
void wait_for_all(c10d::Store& store, int world_size, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  std::vector<std::string> keys;
  for (int rank = 0; rank < world_size; ++rank)
    keys.push_back(key_of(rank));
  while (true) {
    std::string missing;
    for (int rank = 0; rank < world_size; ++rank) {
      if (!store.check({key_of(rank)}))
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    }
    if (missing.empty()) return;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      throw PeerError("rank " + missing + " of " + std::to_string(world_size) +
                          " did not join within " + format_duration(timeout) +
                          " (ddp.join_timeout). Is it running, and does it reach the store?",
                      exit_code::kTimeout);
    }
    try {
      store.wait(keys, std::min<std::chrono::milliseconds>(left, kNoticeEvery));
    } catch (const c10::DistStoreError&) {
      if (left > kNoticeEvery)
        log::info("waiting for rank " + missing + " of " + std::to_string(world_size));
    }
  }
}

// Everything is compared with rank 0's, so the ranks that differ say so; a collective between them
// would hang or terminate.
void compare_with_root(c10d::Store& store, const WorkerIdentity& self, const std::string& digest) {
  const std::string mine = std::string("torch ") + TORCH_VERSION + ", world size " +
                           std::to_string(self.world_size) + "\n" + digest;
  if (self.rank == 0) {
    store.set("job", mine);
    return;
  }
  const std::vector<std::uint8_t> bytes = store.get("job");
  const std::string root(bytes.begin(), bytes.end());
  if (root == mine) return;
  // Name the first line that differs: one line per thing compared.
  const auto [a, b] = std::mismatch(mine.begin(), mine.end(), root.begin(), root.end());
  const auto line_at = [](const std::string& text, std::size_t at) {
    const std::size_t begin = text.rfind('\n', at == 0 ? 0 : at - 1);
    const std::size_t from = begin == std::string::npos ? 0 : begin + 1;
    return text.substr(from, text.find('\n', from) - from);
  };
  const std::string ours = line_at(mine, static_cast<std::size_t>(a - mine.begin()));
  const std::string theirs = line_at(root, static_cast<std::size_t>(b - root.begin()));
  throw PeerError("rank " + std::to_string(self.rank) + " has \"" + ours + "\", rank 0 has \"" +
                      theirs + "\". Start all ranks with the same job and the same release.",
                  exit_code::kRefused);
}

}  // namespace

std::unique_ptr<Group> join(const WorkerIdentity& self,
                            const Environment& environment,
                            const std::string& digest,
                            std::chrono::milliseconds timeout) {
  if (self.world_size == 1) return make_alone();
  c10d::setDebugLevelFromEnvironment();  // Python does this at import
  const OpenStore open = open_store(self, timeout);
  // A prefix per round makes the keys of an earlier round harmless, whoever serves the store.
  const std::string prefix = "run/" + self.user_run_id + "/" + std::to_string(self.restart_count);
  const auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, open.store);
  try {
    store->set(key_of(self.rank), std::string("1"));
    wait_for_all(*store, self.world_size, timeout);
    compare_with_root(*store, self, digest);
  } catch (const c10::Error& error) {
    throw PeerError("the store at " + self.master_addr + ":" + std::to_string(self.master_port) +
                        " failed: " + message_of(error),
                    exit_code::kRendezvous);
  }
  GlooRequest request;
  request.store = store;
  request.rank = self.rank;
  request.world_size = self.world_size;
  request.interface = find_variable(environment, "GLOO_SOCKET_IFNAME").value_or("");
  request.local_address = open.local_address;
  request.join_timeout = timeout;
  request.collective_timeout = kCollectiveTimeout;
  return make_gloo_group(request);
}

}  // namespace ddp::worker
