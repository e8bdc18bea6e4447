#include "worker/train/evaluation_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "common/text/join_words.h"

namespace ddp::worker {

EvaluationPolicy::EvaluationPolicy(const Job& job,
                                   const Watched& usual,
                                   const std::vector<std::string>& names)
    : watch_{usual.name, usual.is_higher_better, job.evaluation.patience} {
  const EvaluationJob& wanted = job.evaluation;
  if (wanted.metric != "auto") {
    // The named metric also drives the plateau schedule, which else follows the loss, as in Python.
    watch_.metric = wanted.metric;
    watch_.is_higher_better = wanted.metric.find("loss") == std::string::npos;
    plateau_metric_ = wanted.metric;
  }
  if (wanted.mode != EvaluationJob::Mode::automatic)
    watch_.is_higher_better = wanted.mode == EvaluationJob::Mode::max;
  if (std::ranges::find(names, watch_.metric) == names.end()) {
    throw UsageError("eval.watch.metric: an evaluation of this task has no " + watch_.metric +
                     ". It has: " + join_words(names) + ".");
  }
  const bool is_higher_better = wanted.metric != "auto" && watch_.is_higher_better;
  plateau_ = make_plateau(job, is_higher_better);
}

std::optional<double> EvaluationPolicy::result_of(const NamedValues& test) const {
  const std::optional<double> result = find_value(test, watch_.metric);
  return result && std::isfinite(*result) ? result : std::nullopt;
}

bool EvaluationPolicy::note(const NamedValues& test, BestResultState& state) {
  const double result = result_of(test).value_or(NAN);
  const bool is_best = is_gain(watch_, state, result);
  state = note_result(watch_, state, result);
  if (plateau_) plateau_->note(find_value(test, plateau_metric_).value_or(NAN));
  return is_best;
}

std::optional<std::string> EvaluationPolicy::why_stop(const BestResultState& state) const {
  if (!is_out_of_patience(watch_, state)) return {};
  return fmt::format("stops early: {} evaluations without gain in {}; the best was {:.6g}",
                     state.without_gain,
                     watch_.metric,
                     state.best.value_or(NAN));
}

std::vector<NamedTensor> EvaluationPolicy::state() const {
  if (!plateau_) return {};
  return {plateau_->state()};
}

}  // namespace ddp::worker
