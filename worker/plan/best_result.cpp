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

bool is_gain(const BestResultRule& rule, const BestResultState& state, double result) {
  return is_better(rule.is_higher_better, result, state.best);
}

BestResultState note_result(const BestResultRule& rule, BestResultState state, double result) {
  if (!is_gain(rule, state, result)) return {state.best, state.without_gain + 1};
  return {result, 0};
}

bool is_out_of_patience(const BestResultRule& rule, const BestResultState& state) {
  return rule.patience && state.without_gain >= *rule.patience;
}

}  // namespace ddp::worker
