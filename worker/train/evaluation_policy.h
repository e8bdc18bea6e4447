// What follows from evaluations: which one is the best, whether the learning rate drops, whether
// the run stops early.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "worker/plan/best_result.h"
#include "worker/plan/job.h"
#include "worker/plan/named_values.h"
#include "worker/task/task.h"
#include "worker/train/plateau.h"

namespace ddp::worker {

class EvaluationPolicy {
 public:
  /// `usual` is the task's watched value; `names` are those of all values of an evaluation. Errors:
  /// UsageError when eval.watch.metric is not one of them.
  EvaluationPolicy(const Job& job, const Watched& usual, const std::vector<std::string>& names);

  /// The watched value of an evaluation; none when it is not finite.
  [[nodiscard]] std::optional<double> result_of(const NamedValues& test) const;

  /// Records an evaluation. Returns whether it is the best so far; the same on every rank.
  bool note(const NamedValues& test, BestResultState& state);

  /// Why the run stops here, for the console; no value: it continues.
  [[nodiscard]] std::optional<std::string> why_stop(const BestResultState& state) const;

  /// Which value is watched, and whether higher is better.
  [[nodiscard]] const BestResultRule& rule() const { return watch_; }

  /// The factor on the learning rate, from the plateau schedule.
  [[nodiscard]] double rate_factor() const { return plateau_ ? plateau_->factor() : 1; }
  /// What a checkpoint holds of the policy, besides BestResultState.
  [[nodiscard]] std::vector<NamedTensor> state() const;

 private:
  BestResultRule watch_;
  std::string plateau_metric_ = "loss";
  std::optional<Plateau> plateau_;
};

}  // namespace ddp::worker
