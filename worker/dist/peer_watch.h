// Ends works that wait for a peer whose connection is gone.
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

/// How often the connections are looked at, and how long a work may go on after one of them has
/// ended: it may need that peer no more, and the library may be about to say so itself.
inline constexpr std::chrono::milliseconds kLook{250};
inline constexpr std::chrono::milliseconds kGrace{1000};

/// Thread-safe. It has a thread of its own, which looks at each connection once in kLook.
class PeerWatch {
 public:
  explicit PeerWatch(std::set<Connection> connections);
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

  /// `work` as somebody shall wait for it, who then gets its result or its error; or
  /// c10::DistNetworkError when a connection has been gone for kGrace.
  c10::intrusive_ptr<c10d::Work> watch(const c10::intrusive_ptr<c10d::Work>& work);

  /// Connections may end from now on.
  void stop();

  /// Whether a connection has been gone for kGrace; for who waits by other means than a work.
  /// After stop(): no.
  [[nodiscard]] bool has_lost_peer() const { return has_lost_peer_; }

  /// Whether a work was ended here that goes on below.
  [[nodiscard]] bool has_stuck_work() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Started {
    c10::intrusive_ptr<WatchedWork> work;
    Clock::time_point at;
  };

  void probe();
  void note_loss();
  void end_works(Clock::time_point begun_before);

  const std::set<Connection> connections_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Started> works_;  // that may not have ended
  std::vector<c10::intrusive_ptr<c10d::Work>> stuck_;
  bool is_stopped_ = false;
  std::atomic<bool> has_lost_peer_ = false;
  std::thread thread_;
};

}  // namespace ddp::worker
