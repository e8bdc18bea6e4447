// What Kubeflow is told of a run: percent, time left, metrics. Made from the lines that
// programs of `metrics.command` get (deploy/tracking). Pure.
// Source: proposal 2779 of kubeflow/trainer, "Track TrainJob progress": status.trainerStatus.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::worker {

class RunStatus {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMostMetrics = 64;

  /// Takes one line. What is not understood is left out.
  void note(std::string_view line, Time now);

  /// The body to post, as JSON; nothing: no job is known yet.
  [[nodiscard]] std::optional<std::string> body(std::chrono::system_clock::time_point now) const;

 private:
  [[nodiscard]] std::optional<std::int64_t> seconds_left() const;

  struct Point {
    std::int64_t step = 0;
    Time at;
  };
  std::int64_t steps_ = 0;      // planned; 0: not known
  std::optional<Point> first_;  // the first step that was told since the run began or went on
  Point newest_;
  std::map<std::string, double, std::less<>> metrics_;
  bool has_finished_ = false;  // well: it is at 100 percent
  bool has_ended_ = false;
};

}  // namespace ddp::worker
