// Whether a round may begin where the memory of GPUs may still be that of the last one: a driver
// gives back the memory of a process that was killed some time after its end, and a worker that
// comes earlier runs out of memory. Pure: it is told who holds memory, and when.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddp::launcher {

/// A process with memory of a GPU.
struct GpuHolder {
  int gpu = 0;  // as the driver counts them
  std::int64_t pid = 0;
  bool operator==(const GpuHolder&) const = default;
};

/// A worker of the last round.
struct FormerWorker {
  int rank = 0;
  std::int64_t pid = 0;
};

/// One wait, before one round. Holders that are not workers of the last round are other jobs':
/// nobody waits for them.
class GpuMemoryWait {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPause{2};   // between two questions
  static constexpr std::chrono::seconds kLimit{50};  // then the round begins all the same

  GpuMemoryWait(std::vector<FormerWorker> former, Time begin)
      : former_(std::move(former)), begin_(begin) {}

  struct Step {
    bool waits = false;  // ask again after kPause
    std::string line;    // to be said; empty: nothing
    bool is_warning = false;
  };
  /// After each answer.
  [[nodiscard]] Step take(const std::vector<GpuHolder>& holders, Time now);

 private:
  std::vector<FormerWorker> former_;
  Time begin_;
  bool has_waited_ = false;
};

}  // namespace ddp::launcher
