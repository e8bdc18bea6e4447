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

bool is_gain(const BestResultOptions& options, const BestResultState& state, double result) {
  return is_better(options.is_higher_better, result, state.best);
}

BestResultState note_result(const BestResultOptions& options,
                            BestResultState state,
                            double result) {
  if (!is_gain(options, state, result)) return {state.best, state.without_gain + 1};
  return {result, 0};
}

bool is_out_of_patience(const BestResultOptions& options, const BestResultState& state) {
  return options.patience && state.without_gain >= *options.patience;
}

}  // namespace ddp::worker
