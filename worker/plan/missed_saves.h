// Saves of a run that fail, one after the other. Training goes on when a disk is full for a while;
// a run whose last hours exist nowhere must not. A number of saves alone says nothing of hours:
// with a save each few steps five of them fail within a second.
#pragma once

#include <chrono>
#include <optional>

namespace ddp::worker {

class MissedSaves {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kMost = 5;
  static constexpr std::chrono::seconds kLongest{60};

  /// One more has failed. Whether it was one too many: the fifth or a later one in a row, and a
  /// minute after the first.
  [[nodiscard]] bool add(Time now) {
    ++count_;
    if (!first_) first_ = now;
    return count_ >= kMost && now - *first_ >= kLongest;
  }
  void clear() { *this = MissedSaves(); }  // one has not failed

  [[nodiscard]] int count() const { return count_; }  // in a row

 private:
  int count_ = 0;
  std::optional<Time> first_{};
};

}  // namespace ddp::worker
