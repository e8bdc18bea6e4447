// Samples that are drawn with replacement, some more often than others.
// Promise: an epoch's draws are a pure function of the weights, the seed and the epoch.
#pragma once

#include <cstdint>
#include <vector>

namespace ddp::worker {

class SampleWeights {
 public:
  /// `weights`: how often each sample is drawn, relative to the others. Errors: std::logic_error
  /// for a negative weight, or none above 0.
  explicit SampleWeights(const std::vector<double>& weights);

  /// Weights with which all classes are drawn equally often. `labels` are those of all samples, in
  /// [0, classes).
  static SampleWeights balanced(const std::vector<std::int64_t>& labels, int classes);

  /// `count` indices of samples.
  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t count,
                                               std::uint64_t seed,
                                               std::int64_t epoch) const;

 private:
  std::vector<double> sums_;  // cumulative weights: of all samples up to each one
};

}  // namespace ddp::worker
