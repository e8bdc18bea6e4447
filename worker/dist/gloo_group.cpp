#include "worker/dist/gloo_group.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <poll.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "common/error.h"
#include "worker/dist/agreement.h"
#include "worker/dist/cuda_module.h"
#include "worker/dist/peer_call.h"
#include "worker/dist/polling.h"
#include "worker/dist/watched_gloo.h"
#include "worker/plan/lost_peers.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long to wait for the others' reports. Once one rank gives up and closes its connections, all
/// that wait for it fail within milliseconds; on a busy machine it takes longer.
constexpr milliseconds kReportWait{400};
/// A rank 0 that serves the store waits this much longer, while the others read from it.
constexpr milliseconds kServerWait{200};
constexpr milliseconds kLongest{900};

using Reports = std::optional<std::vector<FailureReport>>;
using Bytes = std::vector<std::uint8_t>;

constexpr const char* kLostPeersKey = "lost-peers";

// All ranks append to one key: with 1,000 ranks, each reads one value of 1,000 lines, not 1,000
// keys.
Reports exchange(c10d::Store& store, const std::string& line, milliseconds wait) {
  try {
    store.append(kLostPeersKey, Bytes(line.begin(), line.end()));
    ::poll(nullptr, 0, static_cast<int>(wait.count()));
    const Bytes bytes = store.get(kLostPeersKey);
    return read_reports(std::string(bytes.begin(), bytes.end()));
  } catch (const std::exception&) {
    return {};  // the rank that served the store has ended
  }
}

/// Finds out which ranks are missing after a collective has failed, without another one: writes
/// `own` to the store, waits for `wait`, and reads what the other ranks have written. Blocks: for
/// `wait` and the store, at most kLongest, even where the rank that serves the store was stopped.
/// No value: the store fails or does not answer.
Reports exchange_reports(const c10::intrusive_ptr<c10d::Store>& store,
                         const FailureReport& own,
                         milliseconds wait) {
  // Trap: LibTorch's client waits for the store without a limit, so another thread asks. If no
  // answer comes, that thread is leaked: the process is about to end anyway.
  auto task = std::make_shared<std::packaged_task<Reports()>>(
      [store, line = to_line(own), wait] { return exchange(*store, line, wait); });
  std::future<Reports> answer = task->get_future();
  std::unique_ptr<std::thread> thread;
  try {
    thread = std::make_unique<std::thread>([task] { (*task)(); });
  } catch (const std::system_error&) {
    return {};  // no thread is available: the failure is reported without the others
  }
  if (answer.wait_for(kLongest) != std::future_status::ready) {
    (void)thread.release();
    return {};
  }
  thread->join();
  return answer.get();
}

struct StartedSum {
  c10::intrusive_ptr<c10d::Work> work;
  Clock::time_point at;

  [[nodiscard]] bool has_ended_well() const { return work->isCompleted() && !work->exception(); }
};

class GlooSum : public PendingSum {
 public:
  GlooSum(const Group& group, at::Tensor tensor, c10::intrusive_ptr<c10d::Work> work)
      : group_(group), tensor_(std::move(tensor)), work_(std::move(work)) {}

  at::Tensor wait() override {
    const InCollective waiting = group_.enter();
    with_peers(group_, "a sum over ranks", [this] { work_->wait(); });
    return tensor_;
  }

 private:
  const Group& group_;
  at::Tensor tensor_;
  c10::intrusive_ptr<c10d::Work> work_;
};

class GlooGroup : public Group {
 public:
  explicit GlooGroup(const GlooOptions& options);
  ~GlooGroup() override;

  [[nodiscard]] int rank() const override { return group_->getRank(); }
  [[nodiscard]] int world_size() const override { return group_->getSize(); }
  void all_reduce(at::Tensor& tensor) override;
  std::unique_ptr<PendingSum> start_all_reduce(at::Tensor tensor) override;
  std::unique_ptr<PendingSum> start_all_reduce(at::Tensor tensor, bool is_async);
  void broadcast(at::Tensor& tensor, int from) override;
  at::Tensor all_gather(const at::Tensor& tensor) override;
  void require_same(const std::string& what, const std::string& text) override;
  void close() override;
  void abandon() override;
  [[nodiscard]] bool is_abandoned() const override { return is_abandoned_; }
  void await_device(const std::string& during, const std::function<bool()>& is_done) const override;
  [[nodiscard]] PeerError explain_lost_peer(const std::string& during,
                                            Clock::time_point began,
                                            const std::string& cause) const override;
  [[nodiscard]] c10d::Store* store() const override { return store_.get(); }
  [[nodiscard]] bool rank_0_serves_store() const override { return rank_0_serves_store_; }
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> process_group() const override {
    return group_;
  }

 private:
  void connect_gpus(const GlooOptions& options);
  void share_memory(SharedMemory wanted);
  void set_names();

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<WatchedGloo> gloo_;
  c10::intrusive_ptr<c10d::Backend> nccl_;  // null without NCCL
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::Device device_;
  std::chrono::milliseconds join_timeout_;
  std::chrono::milliseconds collective_timeout_;
  TimeoutNames timeout_names_;
  bool rank_0_serves_store_;
  std::vector<StartedSum> sums_;  // sums that may not have ended
  int agreement_count_ = 0;       // calls of require_same(), whose keys in the store differ
  bool is_abandoned_ = false;
};

GlooGroup::GlooGroup(const GlooOptions& options)
    : store_(options.store),
      device_(options.device.device),
      join_timeout_(options.join_timeout),
      collective_timeout_(options.collective_timeout),
      timeout_names_(options.timeout_names),
      rank_0_serves_store_(options.rank_0_serves_store) {
  // The Reducer of torch 2.15 then asks the backend for its buckets, as that of 2.11 always does
  // (initialize_buckets() in reducer.cpp). Set before Gloo has threads.
  if (device_.is_cpu()) ::setenv("DDP_DISABLE_COMM_MEM", "0", /*overwrite=*/0);
  auto gloo_options = c10d::ProcessGroupGloo::Options::create(options.join_timeout);
  if (options.interface.empty()) {
    gloo_options->devices.push_back(
        c10d::ProcessGroupGloo::createDeviceForHostname(options.local_address));
  } else {
    gloo_options = c10d::ProcessGroupGloo::Options::create_default(
        options.join_timeout);  // reads the variable itself
  }
  gloo_ = c10::make_intrusive<WatchedGloo>(c10::make_intrusive<c10d::PrefixStore>("cpu", store_),
                                           options.rank,
                                           options.world_size,
                                           gloo_options);
  share_memory(options.device.shared_memory);  // connects, so it has the time-out of the join
  gloo_->setTimeout(options.collective_timeout);
  group_ = c10::make_intrusive<c10d::ProcessGroup>(store_, options.rank, options.world_size);
  // Trap: call it before the first setBackend(). Without it NCCL's barrier guesses its device.
  if (device_.is_cuda()) group_->setBoundDeviceId(device_);
  group_->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::GLOO, gloo_);
  group_->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  if (options.device.nccl) {
    connect_gpus(options);
  } else {
    if (device_.is_cuda())
      group_->setBackend(at::kCUDA, c10d::ProcessGroup::BackendType::GLOO, gloo_);
    set_names();
  }
}

void GlooGroup::share_memory(SharedMemory wanted) {
  if (wanted == SharedMemory::never) return;
  const std::string why_not = gloo_->share_memory();
  if (!why_not.empty() && wanted == SharedMemory::required)
    throw PeerError("backend: shm: " + why_not + ". Use backend=gloo.", exit_code::kRefused);
}

// Trap: only backends that are set already get these names, which NCCL's flight recorder shows.
void GlooGroup::set_names() {
  group_->setGroupName("0");
  group_->setGroupDesc("default_pg");
}

void GlooGroup::connect_gpus(const GlooOptions& options) {
  try {
    nccl_ = options.device.cuda->make_nccl({c10::make_intrusive<c10d::PrefixStore>("cuda", store_),
                                            options.rank,
                                            options.world_size,
                                            options.collective_timeout});
    group_->setBackend(at::kCUDA, c10d::ProcessGroup::BackendType::NCCL, nccl_);
    set_names();
    nccl_->eagerConnectSingleDevice(device_);
  } catch (const c10::Error& error) {
    throw PeerError("rank " + std::to_string(options.rank) + " cannot connect " +
                        options.device.name + " by NCCL: " + message_of(error) +
                        ". NCCL_DEBUG=INFO says more; backend=gloo goes without it.",
                    exit_code::kRendezvous);
  }
}

GlooGroup::~GlooGroup() {
  if (!gloo_) return;  // closed
  gloo_->stop_watching();
  const bool waits_for_nobody = std::uncaught_exceptions() == 0 || is_abandoned_;
  if (waits_for_nobody && !gloo_->has_stuck_work()) return;
  // The destructors join threads that may wait for a dead peer, so these objects are leaked.
  (void)gloo_.release();
  (void)nccl_.release();
  (void)group_.release();
}

void GlooGroup::all_reduce(at::Tensor& tensor) {
  const InCollective waiting = enter();  // allreduce() itself may wait for the others
  tensor = start_all_reduce(tensor, /*is_async=*/false)->wait();
}

std::unique_ptr<PendingSum> GlooGroup::start_all_reduce(at::Tensor tensor) {
  return start_all_reduce(std::move(tensor), /*is_async=*/true);
}

std::unique_ptr<PendingSum> GlooGroup::start_all_reduce(at::Tensor tensor, bool is_async) {
  c10d::AllreduceOptions options;
  options.asyncOp = is_async || !tensor.is_cpu();
  std::vector<at::Tensor> tensors{tensor};
  return with_peers(*this, "a sum over ranks", [&] {
    std::erase_if(sums_, [](const StartedSum& sum) { return sum.has_ended_well(); });
    const Clock::time_point begin = Clock::now();
    sums_.push_back({group_->allreduce(tensors, options), begin});
    return std::make_unique<GlooSum>(*this, tensor, sums_.back().work);
  });
}

void GlooGroup::broadcast(at::Tensor& tensor, int from) {
  const InCollective waiting = enter();
  std::vector<at::Tensor> tensors{tensor};
  c10d::BroadcastOptions options;
  options.rootRank = from;
  options.asyncOp = !tensor.is_cpu();
  with_peers(*this, "a broadcast from rank " + std::to_string(from), [&] {
    group_->broadcast(tensors, options)->wait();
  });
}

at::Tensor GlooGroup::all_gather(const at::Tensor& tensor) {
  std::vector<at::Tensor> parts;
  for (int i = 0; i < world_size(); ++i)
    parts.push_back(at::zeros_like(tensor));
  std::vector<std::vector<at::Tensor>> outputs{parts};
  std::vector<at::Tensor> inputs{tensor};
  c10d::AllgatherOptions options;
  options.asyncOp = !tensor.is_cpu();
  const InCollective waiting = enter();
  with_peers(
      *this, "a gather over ranks", [&] { group_->allgather(outputs, inputs, options)->wait(); });
  return at::stack(outputs[0]);  // [world_size, ...]
}

void GlooGroup::require_same(const std::string& what, const std::string& text) {
  const InCollective waiting = enter();
  const std::string key = "agree/" + std::to_string(agreement_count_++);
  ddp::worker::agree({store_, rank(), world_size(), join_timeout_, timeout_names_.join},
                     {key, what, "did not say its " + what},
                     text);
}

void GlooGroup::await_device(const std::string& during,
                             const std::function<bool()>& is_done) const {
  if (!nccl_) return Group::await_device(during, is_done);
  const InCollective waiting = enter();
  const Clock::time_point deadline = Clock::now() + collective_timeout_;
  // Trap: an NCCL kernel waits for a lost peer forever. NCCL's watchdog would end this process, but
  // only at the time-out, and without naming the missing rank.
  const auto check = [this, deadline] {
    const bool is_late = Clock::now() >= deadline;
    if (!is_late && !gloo_->has_lost_peer()) return;
    throw c10::DistNetworkError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
                                is_late ? "the GPU still waits" : "its connection has ended");
  };
  with_peers(*this, during, [&] { poll_device(is_done, check); });
}

PeerError GlooGroup::explain_lost_peer(const std::string& during,
                                       Clock::time_point began,
                                       const std::string& cause) const {
  // A sum that was started earlier may have failed first: its failure closes all connections.
  for (const StartedSum& sum : sums_) {
    if (!sum.has_ended_well()) began = std::min(began, sum.at);
  }
  // gloo throws one type for a time-out and for a connection that has ended, so the clock decides.
  constexpr milliseconds kRounding{50};
  const Clock::duration waited = Clock::now() - began + kRounding;
  PeerLoss loss;
  loss.own = {rank(), waited >= collective_timeout_, during};
  loss.world_size = world_size();
  loss.timeout = collective_timeout_;
  loss.timeout_name = timeout_names_.collective;
  loss.rank_0_serves_store = rank_0_serves_store_;
  loss.cause = cause;
  // A rank that began earlier may have timed out and closed its connections. If this rank has
  // waited for less than half the time-out, a peer has ended instead. A launcher knows that
  // already, so there is no need to wait for reports.
  const bool may_be_time_out = 2 * waited >= collective_timeout_;
  const bool serves_others = rank_0_serves_store_ && is_root();
  const milliseconds wait = kReportWait + (serves_others ? kServerWait : milliseconds(0));
  loss.reports = exchange_reports(store_, loss.own, may_be_time_out ? wait : milliseconds(0));
  const PeerFailure failure = explain(loss);
  return PeerError(failure.text, failure.code);
}

void GlooGroup::abandon() {
  gloo_->disconnect();
  is_abandoned_ = true;
}

void GlooGroup::close() {
  // Work on the GPU may still need the peers, so nobody exits before it is done.
  await_stream(*this, device_, "the last steps");
  if (!device_.is_cpu())
    c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  const InCollective waiting = enter();
  gloo_->stop_watching();  // a rank with its result exits while others still wait
  with_peers(*this, "the end of the job", [this] {
    // Nobody exits while another rank still works: a launcher may stop all when the first one
    // exits.
    at::Tensor here = at::zeros({1});
    sum(here);
    // The rank that serves the store exits last, so that no peer finds the store closed.
    const bool is_last = store_->add("bye", 1) == world_size();
    if (is_last) store_->set("all-gone", std::string("1"));
    if (is_root()) store_->wait({"all-gone"}, collective_timeout_);
  });
  sums_.clear();
  group_->shutdown();
  group_.reset();
  nccl_.reset();  // its watchdog reads the store, so the store ends last
  gloo_.reset();
  store_.reset();
}

}  // namespace

std::unique_ptr<Group> make_gloo_group(const GlooOptions& options) {
  try {
    return std::make_unique<GlooGroup>(options);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerError(
        "not every rank connected within " + std::to_string(options.join_timeout.count() / 1000) +
            " s (gloo): " + message_of(error) +
            ". Check that the ranks' nodes reach each other, or set GLOO_SOCKET_IFNAME.",
        exit_code::kTimeout);
  }
}

}  // namespace ddp::worker
