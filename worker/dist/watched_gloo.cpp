#include "worker/dist/watched_gloo.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "common/files/files.h"
#include "worker/dist/default_stream.h"
#include "worker/dist/peer_watch.h"

namespace ddp::worker {
namespace {

using std::chrono::milliseconds;

std::set<Connection> opened_since(const std::set<Connection>& others) {
  const std::set<Connection> all = open_connections();
  std::set<Connection> found;
  std::ranges::set_difference(all, others, std::inserter(found, found.end()));
  return found;
}

/// Equal only on ranks that can open each other's files in /proc: same boot, same pid namespace.
std::string this_node() {
  std::error_code ignored;
  std::string boot = read_file("/proc/sys/kernel/random/boot_id", 64).value_or("");
  std::erase(boot, '\n');
  return "boot:" + boot + std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

/// Begins an event of torch's profiler, as c10d::Work does for Gloo's calls. Call the result when
/// the call has ended; it is empty while nothing is profiled.
std::function<void()> begin_event(const char* name, const at::Tensor& tensor) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) return {};
  const auto event = std::make_shared<at::RecordFunction>(std::move(*callbacks));
  event->_setAsync();
  const c10::IValue input(tensor);
  event->before(name, c10::ArrayRef<const c10::IValue>(&input, 1));
  return at::wrapPropagateTLSState([event] { event->end(); });
}

}  // namespace

WatchedGloo::WatchedGloo(const c10::intrusive_ptr<c10d::Store>& store,
                         int rank,
                         int size,
                         const c10::intrusive_ptr<Options>& options)
    : WatchedGloo(open_connections(), store, rank, size, options) {}

WatchedGloo::WatchedGloo(const std::set<Connection>& others,
                         const c10::intrusive_ptr<c10d::Store>& store,
                         int rank,
                         int size,
                         const c10::intrusive_ptr<Options>& options)
    : ProcessGroupGloo(store, rank, size, options),
      c10d_store_(store),
      connections_(opened_since(others)) {
  std::set<Connection> peers = only_connected(connections_);
  // Gloo opens one connection for each peer and device. If the number differs, another thread has
  // opened connections meanwhile, or Gloo connects lazily (TORCH_GLOO_LAZY_INIT): then we cannot
  // tell which connections are Gloo's.
  const std::size_t expected = options->devices.size() * static_cast<std::size_t>(size - 1);
  if (peers.size() == expected) watch_ = std::make_unique<PeerWatch>(std::move(peers));
}

WatchedGloo::~WatchedGloo() = default;

void WatchedGloo::stop_watching() {
  if (watch_) watch_->stop();
}

bool WatchedGloo::has_lost_peer() const {
  return watch_ && watch_->has_lost_peer();
}

void WatchedGloo::disconnect() {
  if (sums_) sums_->abandon();
  if (first_ranks_) first_ranks_->disconnect();
  shut_down(connections_);
}

bool WatchedGloo::has_stuck_work() const {
  return watch_ && watch_->has_stuck_work();
}

c10::intrusive_ptr<c10d::Work> WatchedGloo::allreduce(Tensors& tensors,
                                                      const c10d::AllreduceOptions& options) {
  const bool is_plain_sum = tensors.size() == 1 && options.reduceOp == c10d::ReduceOp::SUM;
  if (sums_ && is_plain_sum && SharedSums::can_sum(tensors[0]))
    return run_shared(
        "gloo:all_reduce", {tensors[0], timeout_for(options.timeout), {}, {}}, options.asyncOp);
  require_default_stream(tensors);
  const auto work = ProcessGroupGloo::allreduce(tensors, options);
  return watch_ ? watch_->watch(work) : work;
}

c10::intrusive_ptr<c10d::Work> WatchedGloo::broadcast(Tensors& tensors,
                                                      const c10d::BroadcastOptions& options) {
  const bool is_plain = tensors.size() == 1 && options.rootTensor == 0 && options.rootRank >= 0 &&
                        options.rootRank < getSize();
  if (sums_ && on_one_node_ && is_plain && SharedSums::can_broadcast(tensors[0])) {
    const auto from = static_cast<int>(options.rootRank);
    return run_shared(
        "gloo:broadcast", {tensors[0], timeout_for(options.timeout), from, {}}, options.asyncOp);
  }
  require_default_stream(tensors);
  const auto work = ProcessGroupGloo::broadcast(tensors, options);
  return watch_ ? watch_->watch(work) : work;
}

c10::intrusive_ptr<c10d::Work> WatchedGloo::allgather(std::vector<Tensors>& outputs,
                                                      Tensors& inputs,
                                                      const c10d::AllgatherOptions& options) {
  const bool is_plain = inputs.size() == 1 && outputs.size() == 1 &&
                        outputs[0].size() == static_cast<std::size_t>(getSize());
  if (sums_ && on_one_node_ && is_plain && SharedSums::can_gather(inputs[0], outputs[0])) {
    return run_shared("gloo:all_gather",
                      {inputs[0], timeout_for(options.timeout), {}, outputs[0]},
                      options.asyncOp);
  }
  require_default_stream(inputs);
  const auto work = ProcessGroupGloo::allgather(outputs, inputs, options);
  return watch_ ? watch_->watch(work) : work;
}

c10::intrusive_ptr<c10d::Work> WatchedGloo::barrier(const c10d::BarrierOptions& options) {
  if (sums_) sums_->drain();  // Gloo's barrier waits for its own calls only
  return ProcessGroupGloo::barrier(options);
}

bool WatchedGloo::supportsTensorAlloc(c10::DeviceIndex device) {
  return sums_ && device == at::Device(at::kCPU).index();
}

at::Tensor WatchedGloo::allocateTensor(long size, at::TensorOptions options) {
  at::Tensor tensor;
  if (sums_ && options.device().is_cpu())
    tensor = sums_->allocate(size, c10::typeMetaToScalarType(options.dtype()));
  return tensor.defined() ? tensor : at::empty({size}, options);
}

/// If the caller waits at once, the call runs in the caller's thread.
c10::intrusive_ptr<c10d::Work> WatchedGloo::run_shared(const char* name,
                                                       SharedSums::Call call,
                                                       bool is_async) {
  call.on_end = begin_event(name, call.tensor);
  return is_async ? sums_->start(std::move(call)) : sums_->run(std::move(call));
}

milliseconds WatchedGloo::timeout_for(milliseconds wanted) {
  return wanted == c10d::kUnsetTimeout ? getOptions()->timeout : wanted;
}

/// A text of at most 255 bytes of each rank, by rank.
std::vector<std::string> WatchedGloo::gather(const std::string& own) {
  constexpr std::int64_t kBytes = 256;
  std::string padded = own.substr(0, kBytes - 1);
  padded.resize(kBytes);
  std::vector<Tensors> all(1);
  for (int rank = 0; rank < getSize(); ++rank)
    all[0].push_back(at::zeros({kBytes}, at::kByte));
  Tensors mine{at::zeros({kBytes}, at::kByte)};
  std::ranges::copy(padded, static_cast<char*>(mine[0].mutable_data_ptr()));
  allgather(all, mine, c10d::AllgatherOptions())->wait();
  std::vector<std::string> texts;
  for (const at::Tensor& one : all[0])
    texts.emplace_back(static_cast<const char*>(one.const_data_ptr()));
  return texts;
}

std::string WatchedGloo::share_memory() {
  return share_memory(this_node());
}

std::string WatchedGloo::share_memory(const std::string& node) {
  const std::vector<std::string> of_ranks = gather(node);
  std::vector<std::string> nodes;  // by their first ranks
  std::vector<int> here;           // the ranks of this node
  for (int rank = 0; rank < getSize(); ++rank) {
    const std::string& its_node = of_ranks.at(static_cast<std::size_t>(rank));
    if (std::ranges::find(nodes, its_node) == nodes.end()) nodes.push_back(its_node);
    if (its_node == node) here.push_back(rank);
  }
  if (nodes.size() == of_ranks.size())
    return "no two ranks can share memory: each is on a node of its own, or in a container with "
           "process numbers of its own";
  const auto gather_here = [&](const std::string& own) {
    const std::vector<std::string> all = gather(own);
    std::vector<std::string> texts;
    for (const int rank : here)
      texts.push_back(all.at(static_cast<std::size_t>(rank)));
    return texts;
  };
  const auto place = static_cast<int>(std::ranges::find(here, getRank()) - here.begin());
  SharedSums::Connected connected = SharedSums::connect(place, here, gather_here);
  for (const std::string& why_not : gather(connected.why_not))
    if (!why_not.empty()) return why_not;
  on_one_node_ = nodes.size() == 1;
  if (!on_one_node_) {
    if (place == 0)
      first_ranks_ = c10::make_intrusive<WatchedGloo>(
          c10::make_intrusive<c10d::PrefixStore>("nodes", c10d_store_),
          static_cast<int>(std::ranges::find(nodes, node) - nodes.begin()),
          static_cast<int>(nodes.size()),
          getOptions());
    connected.sums->set_exchange(
        [this](const at::Tensor& sum, milliseconds timeout) { exchange(sum, timeout); });
  }
  sums_ = std::move(connected.sums);
  return "";
}

/// Any rank's loss ends it, not only that of a first rank.
void WatchedGloo::exchange(const at::Tensor& sum, milliseconds timeout) {
  const at::DisableRecordFunctionGuard part_of_the_sums_event;
  Tensors tensors{sum};
  c10d::AllreduceOptions options;
  options.timeout = timeout;
  const auto work = first_ranks_->ProcessGroupGloo::allreduce(tensors, options);
  (watch_ ? watch_->watch(work) : work)->wait();
}

}  // namespace ddp::worker
