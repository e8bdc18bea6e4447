// How far a rank is, as its progress page tells it, for people who watch it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/progress/progress_page.h"

namespace ddp {

struct RankProgress {
  int rank = 0;
  bool alive = true;
  bool has_page = false;
  Phase phase = Phase::none;
  std::int64_t epoch = 0;  // from 1; 0: not reported
  std::int64_t step = 0;
  std::int64_t steps_total = 0;    // 0: not reported
  std::int64_t samples = 0;        // of the whole job
  std::optional<double> loss;      // nothing: not reported
  std::optional<double> lr;        // likewise
  bool in_collective = false;      // it waits for other ranks
  std::int64_t data_wait_ns = 0;   // that it has waited for data in all
  std::int64_t device_bytes = 0;   // that it holds on its GPU; 0: none, or not reported
  std::uint64_t output_bytes = 0;  // that it has printed, where somebody counts them
};

/// How much of the time a rank waits for others: of the looks at it, about one a second, the share
/// at which it did. The last kLooks count most.
class WaitingShare {
 public:
  static constexpr int kLooks = 30;
  static constexpr int kFewLooks = 10;  // of less the share tells nothing

  void note(bool is_waiting);
  [[nodiscard]] double share() const { return share_; }
  [[nodiscard]] int looks() const { return looks_; }  // at most kLooks

 private:
  double share_ = 0;
  int looks_ = 0;
};

/// What the page says now. The other fields are as they were.
void read_progress(const ProgressPage& page, RankProgress& progress);

/// --progress. Automatic: on a terminal in place, else a line of its own now and then.
enum class Progress { automatic, plain, off };

/// `text` is one of the choices of launch.progress.
Progress parse_progress(std::string_view text);

}  // namespace ddp
