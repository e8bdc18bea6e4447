// Ends c10d works that wait for a peer whose connection is lost.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "worker/dist/connections.h"

namespace ddp::worker {

class WatchedWork;

/// How often the connections are checked, and how long works may continue after a connection is
/// lost: a work may not need that peer any more, or the library may report the loss itself.
inline constexpr std::chrono::milliseconds kPollInterval{250};
inline constexpr std::chrono::milliseconds kLossWait{1000};

/// Thread-safe. It has a thread of its own, which checks each connection once in kPollInterval.
class PeerWatch {
 public:
  explicit PeerWatch(std::set<Connection> connections);
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

  /// Returns a work to wait for in place of `work`. It ends with the result or the error of `work`,
  /// or with c10::DistNetworkError when a connection has been lost for kLossWait.
  c10::intrusive_ptr<c10d::Work> watch(const c10::intrusive_ptr<c10d::Work>& work);

  /// From now on connections may end without an error.
  void stop();

  /// Whether a connection has been lost for kLossWait, for callers that do not wait for a work.
  /// False after stop().
  [[nodiscard]] bool has_lost_peer() const { return has_lost_peer_; }

  /// Whether a work that this object has ended is still waiting inside the library.
  [[nodiscard]] bool has_stuck_work() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Started {
    c10::intrusive_ptr<WatchedWork> work;
    Clock::time_point at;
  };

  void check_connections();
  void note_loss();
  void end_works(Clock::time_point begun_before);

  const std::set<Connection> connections_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Started> works_;  // some may have ended
  std::vector<c10::intrusive_ptr<c10d::Work>> stuck_;
  bool is_stopped_ = false;
  std::atomic<bool> has_lost_peer_ = false;
  std::thread thread_;
};

}  // namespace ddp::worker
