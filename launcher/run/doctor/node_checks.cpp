#include "launcher/run/doctor/node_checks.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/node/driver_query.h"
#include "common/node/identity.h"
#include "common/node/node_gpus.h"
#include "common/version.h"
#include "launcher/net/peer_check.h"
#include "launcher/os/gpu_module_check.h"
#include "launcher/os/inbox.h"
#include "launcher/os/interfaces.h"
#include "launcher/os/node_health.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kAtOnce = 16;  // peers that a node checks in parallel

/// The task's peers: all others in a ring, or only the next one.
std::vector<PeerPlace> peers_of(const CheckPeers& task) {
  std::vector<PeerPlace> peers;
  const auto own = std::ranges::find_if(
      task.nodes, [&](const auto& node) { return node.node_rank == task.own_node_rank; });
  if (own == task.nodes.end()) return peers;
  peers.assign(own + 1, task.nodes.end());
  peers.insert(peers.end(), task.nodes.begin(), own);
  peers.resize(std::min<std::size_t>(peers.size(), task.bytes > 0 ? 1 : kMaxCheckedPeers));
  return peers;
}

using Checked = Inbox<PeerCheck>;

asio::awaitable<void> check_one(asio::io_context& io,
                                PeerPlace peer,
                                std::int64_t bytes,
                                std::shared_ptr<Checked> checked) {
  PeerCheck check = co_await check_peer(io, peer, bytes);
  checked->push(std::move(check));
}

}  // namespace

NodeHealth check_node(const JobSpec& spec) {
  NodeHealth health = read_node_health();
  health.host = host_name();
  health.version = DDP_VERSION;
  health.cpus = spec.facts.cpus;
  GpuHealth gpus;
  gpus.devices = find_gpus();
  gpus.files_driver = health.driver;
  gpus.told = ask_driver(CudaStart::always);
  if (!gpus.told.gpus().empty()) gpus.module = check_cuda_module();
  // Empty is a value here: it hides all GPUs.
  const auto visible = spec.environment.find("CUDA_VISIBLE_DEVICES");
  if (visible != spec.environment.end()) gpus.visible = visible->second;
  gpus.min_free = spec.job.integer("device_min_free");
  health.gpu_findings = check_gpus(gpus);
  if (health.driver.empty()) health.driver = gpus.told.version();
  for (const Gpu& gpu : gpus.devices.empty() ? gpus.told.gpus() : gpus.devices)
    health.gpus.push_back(gpu.model.empty() ? "?" : gpu.model);
  health.interfaces = list_interfaces();
  return health;
}

asio::awaitable<NodeChecks> check_peers(asio::io_context& io, CheckPeers task) {
  NodeChecks checks;
  checks.node_rank = task.own_node_rank;
  const std::vector<PeerPlace> peers = peers_of(task);
  const auto checked = std::make_shared<Checked>(io);  // owners: this, and the running checks
  std::size_t begun = 0;
  while (checks.peers.size() < peers.size()) {
    while (begun < peers.size() && begun < checks.peers.size() + kAtOnce)
      asio::co_spawn(io, check_one(io, peers[begun++], task.bytes, checked), rethrow);
    std::optional<PeerCheck> check = co_await checked->next(kNoDeadline);
    checks.peers.push_back(std::move(*check));
  }
  std::ranges::sort(checks.peers, [](const auto& left, const auto& right) {
    return left.node_rank < right.node_rank;
  });
  co_return checks;
}

}  // namespace ddp::launcher
