// Shows equal lines of several ranks once: --fold. A line waits at most kWindow for other ranks to
// print the same; the lines of one rank keep their order. Memory is bounded: when too much waits,
// the oldest lines are shown early. Pure: the caller passes the time.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

class LineFolder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kWindow{100};
  static constexpr std::size_t kLimit = 256 << 10;  // bytes that wait

  struct Line {
    std::vector<int> ranks;  // ascending, at least one
    std::string text;
    Time since;  // when its first rank printed it
  };

  /// `ranks`: their number; a line that all have printed waits no longer.
  explicit LineFolder(std::size_t ranks) : ranks_(ranks) {}

  void add(int rank, std::string_view text, Time now);

  /// The lines that need not wait any more, in order.
  [[nodiscard]] std::vector<Line> take_due(Time now);
  [[nodiscard]] std::vector<Line> take_all();
  [[nodiscard]] bool is_empty() const { return lines_.empty(); }

 private:
  Line take_front();

  std::size_t ranks_;
  std::deque<Line> lines_;
  std::size_t first_ = 0;  // number of lines_.front(), counted from the first line ever
  std::map<std::string, std::deque<std::size_t>, std::less<>> numbers_;  // by text, ascending
  std::map<int, std::size_t> last_;  // by rank: number of its last line
  std::size_t bytes_ = 0;
};

}  // namespace ddp::launcher
