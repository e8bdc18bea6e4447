// The progress of a rank, from its progress page, as people see it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/progress/progress_page.h"

namespace ddp {

/// How long a rank has been in each phase, in nanoseconds, from its page. Waits for other ranks are
/// counted separately, and in no phase.
struct TimeSpent {
  std::int64_t data = 0;  // waiting for the next batch
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t training = 0;  // the rest of a step; of programs that tell no parts, all of it
  std::int64_t evaluating = 0;
  std::int64_t saving = 0;
  std::int64_t waiting = 0;  // in collectives
  bool operator==(const TimeSpent&) const = default;
};

/// The members of TimeSpent that are a rank's own work.
struct WorkPhase {
  Phase phase;
  std::int64_t TimeSpent::*spent;
};
inline constexpr std::array<WorkPhase, 6> kWorkPhases{{{Phase::data, &TimeSpent::data},
                                                       {Phase::forward, &TimeSpent::forward},
                                                       {Phase::backward, &TimeSpent::backward},
                                                       {Phase::training, &TimeSpent::training},
                                                       {Phase::evaluating, &TimeSpent::evaluating},
                                                       {Phase::saving, &TimeSpent::saving}}};

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
  std::optional<double> lr;        // nothing: not reported
  bool in_collective = false;      // waits for other ranks
  std::int64_t data_wait_ns = 0;   // total wait for data
  std::int64_t device_bytes = 0;   // on its GPU; 0: none, or not reported
  std::uint64_t output_bytes = 0;  // bytes that it has printed, if counted
  std::optional<TimeSpent> spent;  // nothing: its page does not tell
};

/// The share of time in which a rank waits for others: the share of its samples, about one a
/// second, that show it waiting. The last kSamples samples count most.
class WaitingShare {
 public:
  static constexpr int kSamples = 30;
  static constexpr int kEnoughSamples = 10;  // with fewer the share means nothing

  void note(bool is_waiting);
  [[nodiscard]] double share() const { return share_; }
  [[nodiscard]] int samples() const { return samples_; }  // at most kSamples

 private:
  double share_ = 0;
  int samples_ = 0;
};

/// Reads the page's fields into `progress`; its other fields stay unchanged.
void read_progress(const ProgressPage& page, RankProgress& progress);

/// --progress. Automatic: in place on a terminal, else a new line from time to time.
enum class ProgressMode { automatic, plain, off };

/// `text` is one of the choices of launch.progress.
ProgressMode parse_progress(std::string_view text);

}  // namespace ddp
