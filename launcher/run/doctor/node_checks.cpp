#include "launcher/run/doctor/node_checks.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/node/driver_query.h"
#include "common/node/helper_process.h"
#include "common/node/identity.h"
#include "common/node/packaged_worker.h"
#include "common/node/probe_process.h"
#include "common/node/proc_gpus.h"
#include "common/text/parse_whole.h"
#include "common/version.h"
#include "launcher/net/peer_check.h"
#include "launcher/os/inbox.h"
#include "launcher/os/interfaces.h"
#include "launcher/os/program.h"
#include "launcher/os/resources.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kAtOnce = 16;  // peers that a node checks in parallel

/// The task's peers: all others in a ring, or only the next one.
std::vector<PeerAddress> peers_of(const CheckPeers& task) {
  std::vector<PeerAddress> peers;
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
                                PeerAddress peer,
                                std::int64_t bytes,
                                std::shared_ptr<Checked> checked) {
  PeerCheck check = co_await check_peer(io, peer, bytes);
  checked->push(std::move(check));
}

constexpr std::chrono::seconds kModuleLimit{40};

/// Beside the program (a build directory), in ../lib (an installation), or in the package of pip.
/// In ../lib when there is none. Not find_cuda_module(): it asks the dynamic loader, which a static
/// program has not.
std::filesystem::path find_module() {
  constexpr const char* kName = "libddp-worker-cuda.so";
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path beside = program.parent_path() / kName;
  if (std::filesystem::exists(beside, ignored)) return beside;
  const std::filesystem::path installed = program.parent_path().parent_path() / "lib" / kName;
  if (std::filesystem::exists(installed, ignored)) return installed;
  try {
    return find_packaged_worker(program).program.parent_path().parent_path() / "lib" / kName;
  } catch (const Error&) {
    return installed;
  }
}

/// Whether ddp-worker's module for GPUs can be opened, with all that torch's CUDA part and NCCL
/// need. The probe opens it: the launcher itself loads nothing of LibTorch. Blocks: a second or
/// two, some more from a cold disk, at most kModuleLimit. Errors: SystemError.
CudaModuleHealth check_cuda_module() {
  CudaModuleHealth health;
  std::error_code ignored;
  health.is_wanted = !beside_this_program("ddp-worker").empty();
  const std::filesystem::path module = find_module();
  health.is_built = std::filesystem::exists(module, ignored);
  if (!health.is_built) return health;
  const std::chrono::seconds limit = kModuleLimit + std::chrono::seconds(1);
  const HelperAnswer helper = ask_helper(probe_body({"module", module}, limit), kModuleLimit);
  const ProbeAnswer answer = read_probe(helper.text);
  for (const auto& parts : answer.lines) {
    if (parts.size() != 2) continue;
    if (parts[0] == "cuda") health.cuda = parse_whole<int>(parts[1]).value_or(0);
    if (parts[0] == "error") health.error = parts[1];
  }
  if (answer.is_whole) return health;
  if (answer.why_not_started != 0) {
    health.error = "it cannot be tried: " + std::generic_category().message(answer.why_not_started);
    return health;
  }
  health.error = helper.is_whole
                     ? "a library of it ended the process that opened it"
                     : "it was not open within " + std::to_string(kModuleLimit.count()) + " s";
  return health;
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
  gpus.driver = ask_driver(CudaStart::always);
  if (!gpus.driver.gpus().empty()) gpus.module = check_cuda_module();
  // Empty is a value here: it hides all GPUs.
  const auto visible = spec.environment.find("CUDA_VISIBLE_DEVICES");
  if (visible != spec.environment.end()) gpus.visible = visible->second;
  gpus.min_free = spec.job.integer("device_min_free");
  health.gpu_findings = check_gpus(gpus);
  if (health.driver.empty()) health.driver = gpus.driver.version();
  for (const Gpu& gpu : gpus.devices.empty() ? gpus.driver.gpus() : gpus.devices)
    health.gpus.push_back(gpu.model.empty() ? "?" : gpu.model);
  health.interfaces = list_interfaces();
  return health;
}

asio::awaitable<NodeChecks> check_peers(asio::io_context& io, CheckPeers task) {
  NodeChecks checks;
  checks.node_rank = task.own_node_rank;
  const std::vector<PeerAddress> peers = peers_of(task);
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
