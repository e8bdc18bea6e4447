// Gives a run up after five saves in a row that failed over at least a minute. Training may go on
// while a disk is full for some time. The number alone is not enough: with a save every few steps,
// five of them fail within a second.
#pragma once

#include <chrono>
#include <optional>

namespace ddp::worker {

class MissedSaves {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kMost = 5;
  static constexpr std::chrono::seconds kLongest{60};

  /// Notes one more failed save. Returns whether it was one too many: the fifth or a later one in a
  /// row, and a minute after the first.
  [[nodiscard]] bool add(Time now) {
    ++count_;
    if (!first_) first_ = now;
    return count_ >= kMost && now - *first_ >= kLongest;
  }
  void clear() { *this = MissedSaves(); }  // call it when a save has succeeded

  [[nodiscard]] int count() const { return count_; }  // in a row

 private:
  int count_ = 0;
  std::optional<Time> first_{};
};

}  // namespace ddp::worker
