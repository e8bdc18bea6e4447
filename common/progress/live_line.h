// The progress of a job in one line. Node 0 makes it from the samples of all ranks, about once a
// second, and every node shows it, so that no node looks dead. Pure: the caller passes the time.
// Programs with a progress page have a live line in every run. For others the line only says which
// ranks run and for how long nothing was printed. It is always shown with several nodes. On one
// node the programs' own output is visible, so it is shown only on a terminal, for two ranks or
// more, after nothing was printed for kQuiet. In a log file a line each half minute would be noise;
// --progress plain asks for it.
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

/// The growth rate of a number over the last `window`.
class GrowthRate {
 public:
  explicit GrowthRate(std::chrono::nanoseconds window) : window_(window) {}

  /// Adds a number. A smaller number than the last one starts again.
  void note(std::chrono::nanoseconds now, std::int64_t number);
  /// Nothing: less than a second has passed.
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
  static constexpr std::chrono::seconds kWindow{10};       // for images per second
  static constexpr std::chrono::seconds kLongWindow{300};  // for the time left
  static constexpr std::chrono::seconds kQuiet{5};
  static constexpr std::chrono::seconds kPlainPause{30};  // if not rewritten in place
  // A rank is named the slowest only if others wait longer by at least this share of the time.
  static constexpr double kWorthTellingByWaits = 0.1;

  struct Rules {
    bool has_other_nodes = false;
    ProgressMode progress = ProgressMode::automatic;  // of this node
    bool has_terminal = true;                         // this node
    std::int64_t epochs = 0;                          // of the job; 0: unknown
    int round = 0;
  };

  explicit LiveLine(Rules rules) : rules_(rules) {}

  /// `now` counts from any fixed point, `elapsed` since the job began. `slowest`
  /// names the slowest rank, if the ranks' pages tell of their time. Empty: nothing to show yet.
  [[nodiscard]] std::vector<LinePart> describe(std::chrono::nanoseconds now,
                                               std::chrono::nanoseconds elapsed,
                                               std::span<const RankProgress> samples,
                                               const std::string& slowest = "");

 private:
  struct Output {
    std::uint64_t bytes = 0;
    std::chrono::nanoseconds at;  // when it last grew, or was first sampled
  };
  using LineParts = std::vector<LinePart>;
  LineParts describe_training(std::chrono::nanoseconds now,
                              std::span<const RankProgress> samples,
                              const std::string& slowest);
  LineParts describe_external(std::chrono::nanoseconds now, std::span<const RankProgress> samples);
  void append_progress(LineParts& parts, const RankProgress& first) const;
  void append_slowest(LineParts& parts,
                      std::span<const RankProgress> opened,
                      const std::string& slowest);
  void append_costs(LineParts& parts,
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

}  // namespace ddp
