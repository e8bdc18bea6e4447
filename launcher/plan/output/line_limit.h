// Limits the lines that peers outside the job can make us print: anyone that reaches a port may
// connect as often as it likes. Pure.
#pragma once

#include <chrono>

namespace ddp::launcher {

class LineLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Show { line, last_line, nothing };  // last_line: add that further ones are not shown

  LineLimit(int most, std::chrono::seconds pause) : most_(most), pause_(pause) {}

  /// Counts one more line. The count starts again `pause` after its first line.
  Show count_line(Time now) {
    if (now >= until_) {
      until_ = now + pause_;
      lines_ = 0;
    }
    if (lines_ >= most_) return Show::nothing;
    return ++lines_ == most_ ? Show::last_line : Show::line;
  }

 private:
  int most_;
  std::chrono::seconds pause_;
  int lines_ = 0;
  Time until_{};
};

}  // namespace ddp::launcher
