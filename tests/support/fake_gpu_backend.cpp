#include "tests/support/fake_gpu_backend.h"

#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>
#include <torch/library.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/fake_gpu_memory.h"
#include "tests/support/fake_gpu_streams.h"
#include "worker/dist/gloo_group.h"

namespace ddp::worker {
namespace late {
namespace {

using Tensors = std::vector<at::Tensor>;

/// What a stream waits for by wait(), and the host never.
class LateWork final : public c10d::Work {
 public:
  /// Is called when the stream of collectives was asked for it. Holds `tensors` until wait().
  LateWork(Tensors tensors, Tensors results)
      : stream_(stream_of(tensors.at(0).device().index(), kCollectives)),
        position_(queue_of(stream_).asked()),
        held_(std::move(tensors)),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()), std::vector{stream_.device()})) {
    const c10::StreamGuard guard(stream_);
    future_->markCompleted(std::move(results));
  }

  bool isCompleted() override { return queue_of(stream_).is_done(position_); }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    synchronize();
    held_.clear();
    return true;
  }
  void synchronize() override {
    queue_of(current_stream(stream_.device_index())).wait_for(queue_of(stream_), position_);
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  c10::Stream stream_;
  StreamQueue::Position position_;
  Tensors held_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// The memory of tensors, which does not keep them: freed too early it is poisoned.
struct Memory {
  explicit Memory(const Tensors& tensors) {
    for (const at::Tensor& one : tensors) {
      views.push_back(host_view(one));
      blocks.push_back(block_of(one));
    }
  }

  Tensors views;
  std::vector<BlockOwner> blocks;
};

/// Does one thing after the other, in its own thread.
class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Blocks: until all is done.
  ~Worker() {
    give({});
    thread_.join();
  }

  void give(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    has_more_.notify_one();
  }

 private:
  void run() {
    while (true) {
      std::unique_lock lock(mutex_);
      has_more_.wait(lock, [this] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) return;
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable has_more_;
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;  // begins last
};

class LateBackend final : public c10d::Backend {
 public:
  LateBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size)
      : Backend(rank, size) {
    GlooOptions options;
    options.store = c10::make_intrusive<c10d::PrefixStore>("fake_gpu", store);
    options.rank = rank;
    options.world_size = size;
    options.local_address = "127.0.0.1";
    options.join_timeout = std::chrono::seconds(20);
    options.collective_timeout = std::chrono::seconds(20);
    host_ = make_gloo_group(options);
  }

  const std::string getBackendName() const override { return "late"; }

  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return start(tensors, tensors, [this, options](Tensors& host) {
      host_->process_group()->allreduce(host, options)->wait();
      return host;
    });
  }

  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return start(tensors, tensors, [this, options](Tensors& host) {
      host_->process_group()->broadcast(host, options)->wait();
      return host;
    });
  }

  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs,
                                           Tensors& inputs,
                                           const c10d::AllgatherOptions& options) override {
    return start(inputs, outputs.at(0), [this, options](Tensors& host) {
      std::vector<Tensors> gathered(1);
      for (int rank = 0; rank < getSize(); ++rank)
        gathered[0].push_back(at::empty_like(host.at(0)));
      host_->process_group()->allgather(gathered, host, options)->wait();
      return gathered[0];
    });
  }

 private:
  /// `collective` gives the values of `outputs` for those of `inputs`, on the host.
  c10::intrusive_ptr<c10d::Work> start(const Tensors& inputs,
                                       const Tensors& outputs,
                                       const std::function<Tensors(Tensors&)>& collective) {
    const c10::Stream stream = stream_of(inputs.at(0).device().index(), kCollectives);
    StreamQueue& computing = queue_of(current_stream(stream.device_index()));
    const StreamQueue::Position begin = computing.asked();
    queue_of(stream).wait_for(computing, begin);
    const auto results = std::make_shared<std::promise<Tensors>>();
    worker_.give([results, from = Memory(inputs), &computing, begin, collective] {
      try {
        // Trap: who holds the lock of that stream may itself wait for this collective.
        while (!computing.is_done(begin)) {
          computing.try_run_to(begin);
          std::this_thread::yield();
        }
        Tensors values;
        for (const at::Tensor& one : from.views)
          values.push_back(one.clone());
        results->set_value(collective(values));
      } catch (const std::exception&) {
        results->set_exception(std::current_exception());
      }
    });
    queue_of(stream).ask([results, to = Memory(outputs)] {
      const Tensors values = results->get_future().get();
      for (std::size_t i = 0; i < to.views.size(); ++i)
        to.views[i].copy_(values.at(i));
    });
    Tensors all = inputs;
    all.insert(all.end(), outputs.begin(), outputs.end());
    for (const at::Tensor& one : all)
      block_of(one)->note_operator(stream);
    return c10::make_intrusive<LateWork>(all, outputs);
  }

  std::unique_ptr<Group> host_;  // carries the values
  Worker worker_;                // ends first
};

// As in c10d's Ops.cpp, which has them for other devices.
using GroupPointer = c10::intrusive_ptr<c10d::ProcessGroup>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

std::tuple<Tensors, WorkPointer> allreduce(at::TensorList tensors,
                                           const GroupPointer& group,
                                           const c10::intrusive_ptr<c10d::ReduceOp>& op,
                                           const std::optional<at::Tensor>& /*sparse_indices*/,
                                           bool /*is_async*/,
                                           std::int64_t timeout) {
  Tensors all = tensors.vec();
  c10d::AllreduceOptions options;
  options.reduceOp = *op;
  options.timeout = std::chrono::milliseconds(timeout);
  return {all, group->getBackend(kType)->allreduce(all, options)};
}

std::tuple<Tensors, WorkPointer> broadcast(at::TensorList tensors,
                                           const GroupPointer& group,
                                           std::int64_t root_rank,
                                           std::int64_t root_tensor,
                                           bool /*is_async*/,
                                           std::int64_t timeout) {
  Tensors all = tensors.vec();
  c10d::BroadcastOptions options;
  options.rootRank = root_rank;
  options.rootTensor = root_tensor;
  options.timeout = std::chrono::milliseconds(timeout);
  return {all, group->getBackend(kType)->broadcast(all, options)};
}

std::tuple<std::vector<Tensors>, WorkPointer> allgather(const std::vector<Tensors>& outputs,
                                                        at::TensorList inputs,
                                                        const GroupPointer& group,
                                                        bool /*is_async*/,
                                                        std::int64_t timeout) {
  std::vector<Tensors> all = outputs;
  Tensors mine = inputs.vec();
  c10d::AllgatherOptions options;
  options.timeout = std::chrono::milliseconds(timeout);
  return {all, group->getBackend(kType)->allgather(all, mine, options)};
}

TORCH_LIBRARY_IMPL(c10d, HPU, library) {
  library.impl("allreduce_", &allreduce);
  library.impl("broadcast_", &broadcast);
  library.impl("allgather_", &allgather);
}

}  // namespace
}  // namespace late

void connect_fake_gpus(Group& group) {
  const auto store = c10::intrusive_ptr<c10d::Store>::reclaim_copy(group.store());
  group.process_group()->setBackend(
      late::kType,
      c10d::ProcessGroup::BackendType::CUSTOM,
      c10::make_intrusive<late::LateBackend>(store, group.rank(), group.world_size()));
}

}  // namespace ddp::worker
