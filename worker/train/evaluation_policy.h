// What follows from evaluations: which one is the best, whether the learning rate drops, whether
// the run stops early.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "worker/model/named_tensor.h"
#include "worker/plan/best_result.h"
#include "worker/plan/job.h"
#include "worker/plan/named_values.h"
#include "worker/plan/plateau.h"
#include "worker/task/task.h"

namespace ddp::worker {

/// The plateau schedule of a run: its rules (plan/plateau) and its state, in a tensor that
/// checkpoints hold beside the optimizer's state.
class Plateau {
 public:
  Plateau(const PlateauRule& rule, double base_lr);

  /// Call it after each evaluation, with the same result on every rank.
  void note(double result);

  /// The factor on the base learning rate; 1 at first.
  [[nodiscard]] double factor() const;

  /// The tensor shares memory with this object, so loading into it changes the object.
  [[nodiscard]] NamedTensor state() const { return {"schedule.plateau", memory_}; }

 private:
  PlateauRule rule_;
  double base_lr_;
  at::Tensor memory_;  // [4] float64: whether there is a best, the best, bad results, factor
};

class EvaluationPolicy {
 public:
  /// `usual` is the task's monitored value; `names` are those of all values of an evaluation.
  /// Errors: UsageError when eval.watch.metric is not one of them.
  EvaluationPolicy(const Job& job,
                   const MonitoredMetric& usual,
                   const std::vector<std::string>& names);

  /// The monitored value of an evaluation; none when it is not finite.
  [[nodiscard]] std::optional<double> result_of(const NamedValues& test) const;

  /// Records an evaluation. Returns whether it is the best so far; the same on every rank.
  bool note(const NamedValues& test, BestResultState& state);

  /// Why the run stops here, for the console; no value: it continues.
  [[nodiscard]] std::optional<std::string> why_stop(const BestResultState& state) const;

  /// Which value is monitored, and whether higher is better.
  [[nodiscard]] const BestResultOptions& monitored() const { return monitored_; }

  /// The factor on the learning rate, from the plateau schedule.
  [[nodiscard]] double rate_factor() const { return plateau_ ? plateau_->factor() : 1; }
  /// What a checkpoint holds of the policy, besides BestResultState.
  [[nodiscard]] std::vector<NamedTensor> state() const;

 private:
  BestResultOptions monitored_;
  std::string plateau_metric_ = "loss";
  std::optional<Plateau> plateau_;
};

}  // namespace ddp::worker
