#include "worker/plan/sample_weights.h"

#include <algorithm>
#include <stdexcept>

#include "worker/plan/random.h"

namespace ddp::worker {

SampleWeights::SampleWeights(const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0)) throw std::logic_error("a weight of a sample is below 0");
    sums_.push_back(sum += weight);
  }
  if (!(sum > 0)) throw std::logic_error("no sample has a weight above 0");
}

SampleWeights SampleWeights::balanced(const std::vector<std::int64_t>& labels, int classes) {
  std::vector<double> counts(static_cast<std::size_t>(classes));
  for (const std::int64_t label : labels)
    ++counts.at(static_cast<std::size_t>(label));
  std::vector<double> weights;
  for (const std::int64_t label : labels)
    weights.push_back(1 / counts[static_cast<std::size_t>(label)]);
  return SampleWeights(weights);
}

std::vector<std::int64_t> SampleWeights::draw(std::int64_t count,
                                              std::uint64_t seed,
                                              std::int64_t epoch) const {
  std::vector<std::int64_t> drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    Random random(seed, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(i));
    // The first sample whose sum is above the draw: a sample of weight 0 has the sum of the one
    // before.
    const auto found = std::ranges::upper_bound(sums_, random.uniform() * sums_.back());
    drawn.push_back(std::min<std::ptrdiff_t>(found - sums_.begin(),
                                             static_cast<std::ptrdiff_t>(sums_.size()) - 1));
  }
  return drawn;
}

}  // namespace ddp::worker
