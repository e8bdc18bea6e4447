// Whether a round may begin while workers of the last round may still hold GPU memory. A driver
// frees the memory of a killed process some time after its end, and a worker that starts earlier
// runs out of memory. Pure: the caller passes the holders and the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddp::launcher {

/// A process that holds GPU memory.
struct GpuHolder {
  int gpu = 0;  // by the driver's numbers
  std::int64_t pid = 0;
  bool operator==(const GpuHolder&) const = default;
};

/// A worker of the last round.
struct FormerWorker {
  int rank = 0;
  std::int64_t pid = 0;
};

/// One wait, before one round. Holders that are not workers of the last round are other jobs', and
/// are not waited for.
class GpuMemoryWait {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPause{2};   // between two queries
  static constexpr std::chrono::seconds kLimit{50};  // then the round begins anyway

  GpuMemoryWait(std::vector<FormerWorker> former, Time begin)
      : former_(std::move(former)), begin_(begin) {}

  struct Decision {
    bool waits = false;  // query again after kPause
    std::string line;    // to print; empty: nothing
    bool is_warning = false;
  };
  /// Call after each query.
  [[nodiscard]] Decision note_holders(const std::vector<GpuHolder>& holders, Time now);

 private:
  std::vector<FormerWorker> former_;
  Time begin_;
  bool has_waited_ = false;
};

}  // namespace ddp::launcher
