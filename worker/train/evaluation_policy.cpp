#include "worker/train/evaluation_policy.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "common/text/join_words.h"

namespace ddp::worker {

namespace {

/// No value if the job has another schedule.
std::optional<Plateau> make_plateau(const Job& job, bool is_higher_better) {
  if (job.schedule.name != "plateau") return {};
  PlateauRule rule;
  rule.is_higher_better = is_higher_better;
  rule.factor = job.schedule.factor;
  rule.patience = job.schedule.patience;
  rule.threshold = job.schedule.threshold;
  rule.min_lr = job.schedule.min_lr;
  return Plateau(rule, job.optimizer.lr);
}

}  // namespace

Plateau::Plateau(const PlateauRule& rule, double base_lr)
    : rule_(rule), base_lr_(base_lr), memory_(at::tensor({0.0, 0.0, 0.0, 1.0}, at::kDouble)) {}

void Plateau::note(double result) {
  double* const memory = memory_.data_ptr<double>();
  PlateauState state;
  if (memory[0] != 0) state.best = memory[1];
  state.bad_results = static_cast<std::int64_t>(memory[2]);
  state.factor = memory[3];
  state = note_result(rule_, base_lr_, state, result);
  memory[0] = state.best ? 1 : 0;
  memory[1] = state.best.value_or(0);
  memory[2] = static_cast<double>(state.bad_results);
  memory[3] = state.factor;
}

double Plateau::factor() const {
  return memory_.data_ptr<double>()[3];
}

EvaluationPolicy::EvaluationPolicy(const Job& job,
                                   const MonitoredMetric& usual,
                                   const std::vector<std::string>& names)
    : monitored_{usual.name, usual.is_higher_better, job.evaluation.patience} {
  const EvaluationJob& wanted = job.evaluation;
  if (wanted.metric != "auto") {
    // The named metric also drives the plateau schedule, which else follows the loss, as in Python.
    monitored_.metric = wanted.metric;
    monitored_.is_higher_better = wanted.metric.find("loss") == std::string::npos;
    plateau_metric_ = wanted.metric;
  }
  if (wanted.mode != EvaluationJob::Mode::automatic)
    monitored_.is_higher_better = wanted.mode == EvaluationJob::Mode::max;
  if (std::ranges::find(names, monitored_.metric) == names.end()) {
    throw UsageError("eval.watch.metric: an evaluation of this task has no " + monitored_.metric +
                     ". It has: " + join_words(names) + ".");
  }
  const bool is_higher_better = wanted.metric != "auto" && monitored_.is_higher_better;
  plateau_ = make_plateau(job, is_higher_better);
}

std::optional<double> EvaluationPolicy::result_of(const NamedValues& test) const {
  const std::optional<double> result = find_value(test, monitored_.metric);
  return result && std::isfinite(*result) ? result : std::nullopt;
}

bool EvaluationPolicy::note(const NamedValues& test, BestResultState& state) {
  const double result = result_of(test).value_or(NAN);
  const bool is_best = is_gain(monitored_, state, result);
  state = note_result(monitored_, state, result);
  if (plateau_) plateau_->note(find_value(test, plateau_metric_).value_or(NAN));
  return is_best;
}

std::optional<std::string> EvaluationPolicy::why_stop(const BestResultState& state) const {
  if (!is_out_of_patience(monitored_, state)) return {};
  return fmt::format("stops early: {} evaluations without gain in {}; the best was {:.6g}",
                     state.without_gain,
                     monitored_.metric,
                     state.best.value_or(NAN));
}

std::vector<NamedTensor> EvaluationPolicy::state() const {
  if (!plateau_) return {};
  return {plateau_->state()};
}

}  // namespace ddp::worker
