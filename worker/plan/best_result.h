// The number that measures how good a run is: which result is the best, and when to stop because
// there is no gain. Its state is a small value, which a checkpoint holds; the rules are pure
// functions of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddp::worker {

struct BestResultRule {
  std::string metric = "loss";             // the name of an evaluation's value
  bool is_higher_better = false;           // a loss: false; an accuracy: true
  std::optional<std::int64_t> patience{};  // how many evaluations without gain are allowed
};

struct BestResultState {
  std::optional<double> best{};   // result so far
  std::int64_t without_gain = 0;  // evaluations since the best

  bool operator==(const BestResultState&) const = default;
};

/// Whether `result` is better than the best so far, by more than `threshold` relative to it. False
/// for an equal result, and for one that is not finite.
bool is_better(bool is_higher_better,
               double result,
               const std::optional<double>& best,
               double threshold = 0);

/// Whether `result` is the best so far.
bool is_gain(const BestResultRule& rule, const BestResultState& state, double result);

/// The state after one more evaluation.
BestResultState note_result(const BestResultRule& rule, BestResultState state, double result);

/// Whether the run has to end: `patience` evaluations have brought no gain.
bool is_out_of_patience(const BestResultRule& rule, const BestResultState& state);

}  // namespace ddp::worker
