#include "worker/task/confusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/torch.h>

#include <limits>
#include <memory>
#include <vector>

#include "tests/unit/ranks.h"
#include "worker/dist/single_process_group.h"
#include "worker/task/class_results.h"
#include "worker/task/classification.h"

namespace ddp::worker {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<Metric> make_metric() {
  Classification task(nullptr, {}, {});
  return make_confusion_counter(task);
}

Batch batch_of(const at::Tensor& labels) {
  Batch batch;
  batch.targets.push_back({.values = labels, .rows = {}});
  for (std::int64_t i = 0; i < labels.size(0); ++i)
    batch.indices.push_back(i);
  return batch;
}

ClassResults results_of(const Metric& metric) {
  return dynamic_cast<const HasClassResults&>(metric).class_results();
}

/// Scores whose highest is at each of `answers`.
Outputs answering(const std::vector<std::int64_t>& answers, std::int64_t classes) {
  return {at::one_hot(at::tensor(answers, at::kLong), classes).to(at::kFloat)};
}

TEST(Confusion, PairsAreCounted) {
  const std::unique_ptr<Metric> metric = make_metric();
  EXPECT_TRUE(metric->values().empty());
  metric->update(answering({0, 1, 1, 2}, 3), batch_of(at::tensor({0, 0, 1, 1}, at::kLong)));
  metric->update(answering({0}, 3), batch_of(at::tensor({2}, at::kByte)));
  metric->merge(*single_process_group());
  const ClassResults results = results_of(*metric);
  EXPECT_EQ(results.classes, 3);
  EXPECT_FALSE(results.has_background);
  EXPECT_THAT(results.counts, ElementsAre(1, 1, 0, 0, 1, 1, 1, 0, 0));
}

TEST(Confusion, MixedLabelsCountAsTheirLargestShare) {
  const std::unique_ptr<Metric> metric = make_metric();
  metric->update(answering({1}, 2), batch_of(at::tensor({0.3, 0.7}).view({1, 2})));
  metric->merge(*single_process_group());
  EXPECT_THAT(results_of(*metric).counts, ElementsAre(0, 0, 0, 1));
}

TEST(Confusion, LabelsAndOutputsWithoutAClassAreIgnored) {
  const std::unique_ptr<Metric> metric = make_metric();
  metric->update({}, batch_of(at::tensor({0}, at::kLong)));
  metric->update({at::zeros({1, 2, 3})}, batch_of(at::tensor({0}, at::kLong)));
  metric->update(answering({0, 1, 1}, 2), batch_of(at::tensor({-100, 7, 1}, at::kLong)));
  metric->update(answering({0}, 5), batch_of(at::tensor({0}, at::kLong)));
  metric->merge(*single_process_group());
  EXPECT_THAT(results_of(*metric).counts, ElementsAre(0, 0, 0, 1));
  const std::unique_ptr<Metric> many = make_metric();
  many->update({at::zeros({1, kMaxConfusedClasses + 1})}, batch_of(at::tensor({0}, at::kLong)));
  many->merge(*single_process_group());
  EXPECT_EQ(results_of(*many).classes, 0);
}

TEST(Confusion, RanksWithoutSamplesAreNoHindrance) {
  const auto counts = on_ranks(3, [](Group& group) {
    const std::unique_ptr<Metric> metric = make_metric();
    if (group.rank() > 0)
      metric->update(answering({0, 1}, 2), batch_of(at::tensor({0, 0}, at::kLong)));
    metric->merge(group);
    return results_of(*metric).counts;
  });
  for (const std::vector<std::int64_t>& of_rank : counts)
    EXPECT_THAT(of_rank, ElementsAre(2, 2, 0, 0));
}

TEST(Confusion, JsonListsTheNonZeroCounts) {
  ClassResults results;
  results.classes = 2;
  results.counts = {3, 0, 1, 0};
  results.numbers = {{"AP50", {0.5, std::numeric_limits<double>::quiet_NaN()}}};
  EXPECT_EQ(to_json(results, {"\"<cat>\""}, 7),
            "{\"step\":7,\"classes\":2,\"names\":[\"\\\"<cat>\\\"\"],\"background\":false,"
            "\"numbers\":{\"AP50\":[5E-1,null]},\"confusion\":[[0,0,3],[1,0,1]]}\n");
}

}  // namespace
}  // namespace ddp::worker
