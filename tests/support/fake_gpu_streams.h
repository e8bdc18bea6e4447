// The streams of fake GPUs: what each was asked for and has not done yet, and their counters.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace ddp::worker::late {

inline constexpr c10::DeviceType kType = c10::DeviceType::HPU;
inline constexpr c10::DeviceIndex kDevices = 4;
inline constexpr c10::StreamId kStreams = 8;                 // of a device; 0 is the default one
inline constexpr c10::StreamId kCollectives = kStreams - 1;  // the stream of its collectives

/// Those of DeviceCounts.
struct Counters {
  std::atomic<std::int64_t> launches, copies, allocations, host_waits, event_waits, early_frees;
};
inline Counters counters;

inline std::atomic<bool> is_busy{false};  // a BusyFakeGpu lives

class StreamQueue {
 public:
  using Position = std::uint64_t;

  void ask(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    ++asked_;
  }

  [[nodiscard]] Position asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

  [[nodiscard]] bool is_done(Position position) const { return done_ >= position; }

  /// Blocks: until all that was asked for before `position` is done. Errors: those of collectives.
  void run_to(Position position) {
    // Trap: two streams whose tasks wait for each other's earlier ones would lock in a circle.
    if (is_done(position)) return;
    const std::lock_guard lock(mutex_);
    run_locked(position);
  }
  /// The same, unless another thread is at it.
  void try_run_to(Position position) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) run_locked(position);
  }
  void run_all() { run_to(~Position{0}); }

  /// A copy to the host that is done on the device, and that the host does not see before a wait.
  void land_later(std::function<void()> landing) {
    const std::lock_guard lock(mutex_);
    landings_.emplace_back(done_, std::move(landing));
  }

  /// The host has waited for `position`: it sees what was copied to it until there.
  void land(Position position) {
    const std::lock_guard lock(mutex_);
    host_waited_ = std::max(host_waited_, position);
    while (!landings_.empty() && landings_.front().first < position) {
      landings_.front().second();
      landings_.pop_front();
    }
  }
  [[nodiscard]] bool has_host_waited(Position position) const {
    const std::lock_guard lock(mutex_);
    return host_waited_ >= position;
  }

  /// What comes now waits until `other` is at `position`.
  void wait_for(StreamQueue& other, Position position) {
    ask([&other, position] { other.run_to(position); });
    const std::lock_guard lock(mutex_);
    Position& latest = waited_for_[&other];
    latest = std::max(latest, position);
  }
  [[nodiscard]] bool has_waited_for(const StreamQueue& other, Position position) const {
    const std::lock_guard lock(mutex_);
    const auto found = waited_for_.find(&other);
    return found != waited_for_.end() && found->second >= position;
  }

 private:
  void run_locked(Position position) {
    while (done_ < position && !tasks_.empty()) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      try {
        task();
      } catch (...) {
        ++done_;
        throw;
      }
      ++done_;
    }
  }

  mutable std::recursive_mutex mutex_;
  std::deque<std::function<void()>> tasks_;
  std::deque<std::pair<Position, std::function<void()>>> landings_;
  std::map<const StreamQueue*, Position> waited_for_;
  Position host_waited_ = 0;
  Position asked_ = 0;
  std::atomic<Position> done_ = 0;
};

StreamQueue& queue_of(const c10::Stream& stream);

inline thread_local c10::DeviceIndex current_device = 0;
inline thread_local std::array<c10::StreamId, kDevices> current_streams{};

c10::Stream stream_of(c10::DeviceIndex index, c10::StreamId id);
c10::Stream current_stream(c10::DeviceIndex index);

/// Blocks: until `stream` has done all, which the host sees then.
void wait_for_all(const c10::Stream& stream);

/// An operator begins there: what its stream was asked for before is done.
void begin_launch(const c10::Stream& stream);

struct LateEvent {
  c10::Stream stream;
  StreamQueue::Position position = 0;
  bool was_busy = false;  // the device, when the event was recorded
};

}  // namespace ddp::worker::late
