#include "worker/dist/peer_watch.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

namespace ddp::worker {

/// A work that can also be ended from outside. Whichever end comes first counts for its waiters and
/// those of its future.
class WatchedWork : public c10d::Work {
 public:
  explicit WatchedWork(c10::intrusive_ptr<c10d::Work> work)
      : Work(-1, work->retrieveOpType()),
        work_(std::move(work)),
        future_(work_->getFuture()->createInstance(work_->getFuture()->elementType())) {}

  /// Lets `watched` end when its inner work does, unless end() came first.
  static void follow(const c10::intrusive_ptr<WatchedWork>& watched) {
    watched->work_->getFuture()->addCallback([watched](c10::ivalue::Future& ended) {
      watched->end(ended.hasError() ? ended.exception_ptr() : std::exception_ptr());
    });
  }

  void end(const std::exception_ptr& error) {
    if (has_ended_.exchange(true)) return;
    if (error) {
      future_->setError(error);
    } else {
      future_->markCompleted(work_->getFuture()->value());
    }
    finish(error);
  }

  [[nodiscard]] const c10::intrusive_ptr<c10d::Work>& inner() const { return work_; }

  void synchronize() override { work_->synchronize(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }

 private:
  const c10::intrusive_ptr<c10d::Work> work_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<bool> has_ended_ = false;
};

PeerWatch::PeerWatch(std::set<Connection> connections)
    : connections_(std::move(connections)), thread_([this] { check_connections(); }) {}

PeerWatch::~PeerWatch() {
  stop();
  thread_.join();
}

c10::intrusive_ptr<c10d::Work> PeerWatch::watch(const c10::intrusive_ptr<c10d::Work>& work) {
  const auto watched = c10::make_intrusive<WatchedWork>(work);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(works_, [](const Started& started) { return started.work->isCompleted(); });
    if (!is_stopped_) works_.push_back({watched, Clock::now()});
  }
  WatchedWork::follow(watched);
  return watched;
}

void PeerWatch::stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  has_lost_peer_ = false;
  works_.clear();
  changed_.notify_all();
}

bool PeerWatch::has_stuck_work() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(stuck_, [](const auto& work) { return !work->isCompleted(); });
}

void PeerWatch::check_connections() {
  std::optional<Clock::time_point> lost_at;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, kPollInterval, [this] { return is_stopped_; })) return;
    }
    if (!lost_at && !are_open(connections_)) lost_at = Clock::now();
    if (!lost_at || Clock::now() - *lost_at < kLossWait) continue;
    note_loss();
    end_works(Clock::now() - kLossWait);
  }
}

void PeerWatch::note_loss() {
  const std::lock_guard lock(mutex_);
  has_lost_peer_ = !is_stopped_;
}

// Ends the works without the lock: this runs the callbacks of their futures, which may start the
// next work.
void PeerWatch::end_works(Clock::time_point begun_before) {
  std::vector<c10::intrusive_ptr<WatchedWork>> lost;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [work, at] : works_) {
      if (at > begun_before || work->isCompleted()) continue;
      lost.push_back(work);
      stuck_.push_back(work->inner());
    }
  }
  for (const auto& work : lost) {
    work->end(std::make_exception_ptr(
        c10::DistNetworkError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
                              "the connection to a rank has ended in the middle of a transfer")));
  }
}

}  // namespace ddp::worker
