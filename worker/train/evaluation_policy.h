// What evaluations mean for the run: which one is the best, whether the rate drops, whether it is
// time to give up.
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

/// The plateau schedule of a run: its rules (plan/plateau) and what it remembers, in a tensor that
/// checkpoints hold beside the optimizer's state.
class Plateau {
 public:
  Plateau(const PlateauRule& rule, double base_lr);

  /// After each evaluation, with the same result on every rank.
  void note(double result);

  /// Factor on the base learning rate; 1 at first.
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
  /// `names` are the values of an evaluation. Errors: UsageError when eval.watch.metric is not one
  /// of them.
  EvaluationPolicy(const Job& job, const Watched& usual, const std::vector<std::string>& names);

  /// The watched value of an evaluation; none when it is not finite.
  [[nodiscard]] std::optional<double> result_of(const NamedValues& test) const;

  /// Returns whether it was the best so far. The same on every rank.
  bool note(const NamedValues& test, BestResultState& state);

  /// Why the run ends here, as text; no value: it goes on.
  [[nodiscard]] std::optional<std::string> why_stop(const BestResultState& state) const;

  /// Which number is watched, and which of two is better.
  [[nodiscard]] const BestResultRule& rule() const { return watch_; }

  /// Factor on the learning rate.
  [[nodiscard]] double rate_factor() const { return plateau_ ? plateau_->factor() : 1; }
  /// The policy's part of a checkpoint, beside the state of the watch.
  [[nodiscard]] std::vector<NamedTensor> state() const;

 private:
  BestResultRule watch_;
  std::string plateau_metric_ = "loss";
  std::optional<Plateau> plateau_;
};

}  // namespace ddp::worker
