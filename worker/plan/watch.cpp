#include "worker/plan/watch.h"

#include <cmath>

namespace ddp::worker {

bool is_gain(const WatchRule& rule, const WatchState& state, double result) {
  if (!std::isfinite(result)) return false;
  if (!state.best) return true;
  return rule.is_higher_better ? result > *state.best : result < *state.best;
}

WatchState note_result(const WatchRule& rule, WatchState state, double result) {
  if (!is_gain(rule, state, result)) return {state.best, state.without_gain + 1};
  return {result, 0};
}

bool is_out_of_patience(const WatchRule& rule, const WatchState& state) {
  return rule.patience && state.without_gain >= *rule.patience;
}

}  // namespace ddp::worker
