#include "worker/plan/plateau.h"

#include <algorithm>

#include "worker/plan/best_result.h"

namespace ddp::worker {
namespace {

constexpr double kLeastDrop = 1e-8;  // torch's eps

}  // namespace

PlateauState note_result(const PlateauRule& rule,
                         double base_lr,
                         PlateauState state,
                         double result) {
  if (is_better(rule.is_higher_better, result, state.best, rule.threshold)) {
    state.best = result;
    state.bad_results = 0;
    return state;
  }
  if (++state.bad_results <= rule.patience) return state;
  state.bad_results = 0;
  const double lr = base_lr * state.factor;
  const double lower = std::max(lr * rule.factor, rule.min_lr);
  if (lr - lower > kLeastDrop) state.factor = lower / base_lr;
  return state;
}

}  // namespace ddp::worker
