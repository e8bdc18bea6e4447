// Early stopping and the best checkpoint: which evaluation result is the best so far, and whether
// the run should stop because results no longer improve. Pure functions of a small state, which
// checkpoints hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddp::worker {

struct BestResultOptions {
  std::string metric = "loss";             // the name of an evaluation's value
  bool is_higher_better = false;           // a loss: false; an accuracy: true
  std::optional<std::int64_t> patience{};  // evaluations without improvement that are allowed
};

struct BestResultState {
  std::optional<double> best{};   // the best result so far
  std::int64_t without_gain = 0;  // evaluations since the best

  bool operator==(const BestResultState&) const = default;
};

/// Whether `result` is better than `best` by more than `threshold`, relative to `best`. False for
/// an equal result, and for one that is not finite.
bool is_better(bool is_higher_better,
               double result,
               const std::optional<double>& best,
               double threshold = 0);

/// Whether `result` is better than all before it.
bool is_gain(const BestResultOptions& options, const BestResultState& state, double result);

/// The state after one more evaluation.
BestResultState note_result(const BestResultOptions& options, BestResultState state, double result);

/// Whether the run has to end: `patience` evaluations in a row have not improved.
bool is_out_of_patience(const BestResultOptions& options, const BestResultState& state);

}  // namespace ddp::worker
