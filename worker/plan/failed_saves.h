// Counts failed saves, to end a run after at least five in a row over at least a minute. So
// training survives a disk that is full for some time. The number alone is not enough: with a save
// every few steps, five fail within a second.
#pragma once

#include <chrono>
#include <optional>

namespace ddp::worker {

class FailedSaves {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kMaxInARow = 5;
  static constexpr std::chrono::seconds kMinSpan{60};

  /// Returns whether this failed save must end the run.
  [[nodiscard]] bool add_failure(Time now) {
    ++count_;
    if (!first_) first_ = now;
    return count_ >= kMaxInARow && now - *first_ >= kMinSpan;
  }
  void clear() { *this = FailedSaves(); }  // call it when a save has succeeded

  [[nodiscard]] int count() const { return count_; }  // in a row

 private:
  int count_ = 0;
  std::optional<Time> first_{};
};

}  // namespace ddp::worker
