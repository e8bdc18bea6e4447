#include "launcher/plan/start/limits.h"

#include <algorithm>

namespace ddp::launcher {
namespace {

constexpr int kPerWorker = 4;  // its two pipes, its pidfd, and its page until it has started
constexpr int kLogsPerWorker = 2;
// The loop, its timer and its signals (6), guard (2), port, run directory; while a worker starts,
// the other ends of its pipes and moved descriptors (6); a scan of /proc (4); the report.
constexpr int kOurs = 24;

}  // namespace

int descriptors_needed(int open, int workers, bool logs) {
  return open + kOurs + workers * (kPerWorker + (logs ? kLogsPerWorker : 0));
}

int processes_needed(int workers, bool logs) {
  return workers + 3 + (logs ? 1 : 0);
}

int cpus_within(int cpus, std::optional<double> quota) {
  if (!quota || *quota >= cpus) return std::max(1, cpus);
  return std::max(1, static_cast<int>(*quota));
}

}  // namespace ddp::launcher
