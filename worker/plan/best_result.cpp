#include "worker/plan/best_result.h"

#include <cmath>

namespace ddp::worker {

bool is_better(bool is_higher_better,
               double result,
               const std::optional<double>& best,
               double threshold) {
  if (!std::isfinite(result)) return false;
  if (!best) return true;
  return is_higher_better ? result > *best * (1 + threshold) : result < *best * (1 - threshold);
}

bool is_gain(const WatchRule& rule, const WatchState& state, double result) {
  return is_better(rule.is_higher_better, result, state.best);
}

WatchState note_result(const WatchRule& rule, WatchState state, double result) {
  if (!is_gain(rule, state, result)) return {state.best, state.without_gain + 1};
  return {result, 0};
}

bool is_out_of_patience(const WatchRule& rule, const WatchState& state) {
  return rule.patience && state.without_gain >= *rule.patience;
}

}  // namespace ddp::worker
