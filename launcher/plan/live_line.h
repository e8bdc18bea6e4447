// How a job of several nodes goes, in one line that every node shows: no node looks dead. Node 0
// makes it from the samples of all ranks, about once a second. Pure: what time it is, the caller
// says.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "launcher/plan/watchdog.h"

namespace ddp::launcher {

/// Of one round: it knows what the ranks did before.
class LiveLine {
 public:
  static constexpr std::chrono::seconds kWindow{10};  // that images per second are counted over

  /// `now` counts from any fixed point. Empty while there is nothing to tell.
  [[nodiscard]] std::string describe(std::chrono::nanoseconds now,
                                     std::span<const WorkerSample> samples);

 private:
  struct Count {
    std::chrono::nanoseconds at;
    std::int64_t samples = 0;
  };
  struct Output {
    std::uint64_t bytes = 0;
    std::chrono::nanoseconds at;  // when it last grew, or was first seen
  };
  std::string describe_training(std::chrono::nanoseconds now,
                                std::span<const WorkerSample> samples);
  std::string describe_external(std::chrono::nanoseconds now,
                                std::span<const WorkerSample> samples);
  std::int64_t images_per_second(std::chrono::nanoseconds now, std::int64_t samples);

  std::deque<Count> counts_;
  std::map<int, Output> outputs_;  // by rank
};

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

}  // namespace ddp::launcher
