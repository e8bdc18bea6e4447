// How a job goes, in one line. Node 0 makes it from the samples of all ranks, about once a second,
// and every node shows it: no node looks dead. Pure: what time it is, the caller says.
// Programs with a progress page have a live line in every run. For others the line only tells who
// runs and for how long nothing was printed. It is always shown with several nodes. On one node
// their own output is seen anyway, so it is shown only on a terminal, for two ranks or more, once
// nothing was printed for kQuiet. In somebody's log file a line each half minute beside the
// program's own would be noise; who wants it there says --progress plain.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/progress/line_part.h"
#include "common/progress/rank_progress.h"

namespace ddp {

/// How fast a number grows, over the last `window`.
class GrowthRate {
 public:
  explicit GrowthRate(std::chrono::nanoseconds window) : window_(window) {}

  /// A number that is smaller than the one before begins again.
  void note(std::chrono::nanoseconds now, std::int64_t number);
  /// Nothing before a second has passed.
  [[nodiscard]] std::optional<double> per_second() const;

 private:
  struct Count {
    std::chrono::nanoseconds at;
    std::int64_t number = 0;
  };
  std::chrono::nanoseconds window_;
  std::deque<Count> counts_;
};

/// The live line of one round. It keeps the earlier samples, for rates.
class LiveLine {
 public:
  static constexpr std::chrono::seconds kWindow{10};       // of images per second
  static constexpr std::chrono::seconds kLongWindow{300};  // of the time left
  static constexpr std::chrono::seconds kQuiet{5};
  static constexpr std::chrono::seconds kPlainPause{30};  // where it is not rewritten in place
  // Share of the time by which others must wait longer before a rank is named the slowest.
  static constexpr double kWorthTelling = 0.1;

  struct Rules {
    bool has_other_nodes = false;
    Progress progress = Progress::automatic;  // of this node
    bool has_terminal = true;                 // this node
    std::int64_t epochs = 0;                  // of the job; 0: unknown
    int round = 0;
  };

  explicit LiveLine(Rules rules) : rules_(rules) {}

  /// `now` counts from any fixed point, `elapsed` since the job began. Empty while there is nothing
  /// to tell.
  [[nodiscard]] std::vector<LinePart> describe(std::chrono::nanoseconds now,
                                               std::chrono::nanoseconds elapsed,
                                               std::span<const RankProgress> samples);

 private:
  struct Output {
    std::uint64_t bytes = 0;
    std::chrono::nanoseconds at;  // when it last grew, or was first seen
  };
  using Parts = std::vector<LinePart>;
  Parts describe_training(std::chrono::nanoseconds now, std::span<const RankProgress> samples);
  Parts describe_external(std::chrono::nanoseconds now, std::span<const RankProgress> samples);
  void append_progress(Parts& parts, const RankProgress& first) const;
  void append_slowest(Parts& parts, std::span<const RankProgress> opened);
  void append_costs(Parts& parts,
                    std::chrono::nanoseconds now,
                    std::span<const RankProgress> opened);

  Rules rules_;
  GrowthRate samples_{kWindow};
  GrowthRate steps_{kLongWindow};
  GrowthRate data_wait_{kWindow};  // of the rank that waits most
  std::map<int, Output> outputs_;  // by rank
  std::map<int, WaitingShare> waiting_;
};

/// 75 s as "1:15", 3 h as "3:00:00", two days as "2d 00:00".
std::string clock_text(std::chrono::nanoseconds time);

/// What a node runs, for its console.
struct NodeView {
  int node_rank = 0;
  std::string host;
  int first_rank = 0;
  std::vector<std::string> devices;  // by local rank
  std::string logs;                  // directory of the log files; empty: none
};

/// "node 1 (b): ranks 2-3, device cpu, logs runs/mnist/logs/round-0".
std::string describe_node(const NodeView& node);

}  // namespace ddp
