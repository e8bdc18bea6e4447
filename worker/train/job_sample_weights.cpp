#include "worker/train/job_sample_weights.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/text/parse_whole.h"

namespace ddp::worker {
namespace {

std::vector<std::int64_t> labels_of(const Source& data, std::int64_t size) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::optional<std::int64_t> label = data.label(i);
    if (!label) {
      throw UsageError("data.sampler: " + data.facts().name +
                       " does not tell the classes of its samples. Take shuffle or sequential.");
    }
    labels.push_back(*label);
  }
  return labels;
}

/// Finds a class by its name or its number.
std::size_t find_class(const std::string& text, const DataFacts& data) {
  const auto named = std::ranges::find(data.class_names, text);
  if (named != data.class_names.end())
    return static_cast<std::size_t>(named - data.class_names.begin());
  if (const auto number = parse_whole<int>(text, 0, data.classes - 1))
    return static_cast<std::size_t>(*number);
  throw UsageError("data.class_weights." + text + ": " + data.name +
                   " has no such class. Give a class's name, or its number from 0 to " +
                   std::to_string(data.classes - 1) + ".");
}

}  // namespace

std::shared_ptr<const SampleWeights> make_sample_weights(const DataJob& job,
                                                         const Source& data,
                                                         std::int64_t size) {
  if (job.sampler == Sampler::shuffle || job.sampler == Sampler::sequential) {
    if (!job.class_weights.empty()) {
      throw UsageError(
          "data.class_weights: nobody reads them. Set data.sampler to weighted, or leave them "
          "out.");
    }
    return {};
  }
  const std::vector<std::int64_t> labels = labels_of(data, size);
  if (job.sampler == Sampler::class_balanced)
    return std::make_shared<SampleWeights>(SampleWeights::balanced(labels, data.facts().classes));
  std::vector<double> of_class(static_cast<std::size_t>(data.facts().classes), 1.0);
  for (const auto& [name, weight] : job.class_weights)
    of_class[find_class(name, data.facts())] = weight;
  std::vector<double> weights;
  for (const std::int64_t label : labels)
    weights.push_back(of_class[static_cast<std::size_t>(label)]);
  if (std::ranges::none_of(weights, [](double weight) { return weight > 0; }))
    throw UsageError("data.class_weights: no training sample has a weight above 0. Raise one.");
  return std::make_shared<SampleWeights>(weights);
}

}  // namespace ddp::worker
