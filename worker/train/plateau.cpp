#include "worker/train/plateau.h"

#include <torch/torch.h>

namespace ddp::worker {

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

}  // namespace ddp::worker
