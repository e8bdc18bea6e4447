// The metric top-K of classification.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <memory>
#include <string>

#include "common/error.h"
#include "worker/dist/single_process_group.h"
#include "worker/task/classification.h"

namespace ddp::worker {
namespace {

using ::testing::HasSubstr;

TEST(TopK, CountsALabelAmongTheHighestScores) {
  const std::unique_ptr<Metric> metric = make_top_k(2, 4);
  EXPECT_EQ(metric->values(), (NamedValues{{"top2_accuracy", 0}})) << "the name is there at once";
  const at::Tensor scores = at::tensor({.1, .2, .3, .4, .4, .3, .2, .1}).view({2, 4});
  Batch batch{scores, {{at::tensor({2, 3}, at::kLong), {}}}, {0, 1}};
  metric->update({scores}, batch);
  batch.targets[0].values = at::tensor({0, 1}, at::kLong);
  metric->update({scores}, batch);
  metric->merge(*single_process_group());
  EXPECT_EQ(metric->values(), (NamedValues{{"top2_accuracy", 0.5}}));
  EXPECT_THROW(make_top_k(5, 4), UsageError);
}

TEST(TopK, OutputsWithoutClassScoresAreRefusedWithTheirShape) {
  const auto refusal = [](const Outputs& outputs, const Batch& batch) -> std::string {
    try {
      make_top_k(2, 4)->update(outputs, batch);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  const at::Tensor input = at::zeros({2, 6});
  const Batch labels{input, {{at::zeros({2}, at::kLong), {}}}, {0, 1}};
  const Batch boxes{input, {{at::zeros({5, 4}), at::tensor({2, 3}, at::kLong)}}, {0, 1}};
  EXPECT_EQ(refusal({at::zeros({2, 4})}, labels), "");
  EXPECT_EQ(refusal({at::zeros({2, 4, 3})}, labels),
            "eval.metrics: top-2 needs scores of [samples, classes], of 2 classes or more, and a "
            "label for each sample; this task gives outputs of [2x4x3] and targets of [2]. Remove "
            "it.");
  EXPECT_THAT(refusal({at::zeros({2, 4})}, boxes), HasSubstr("targets of [5x4]"));
  EXPECT_THAT(refusal({at::zeros({2, 1})}, labels), HasSubstr("outputs of [2x1]"));
  EXPECT_THAT(refusal({at::zeros({3, 4})}, labels), HasSubstr("outputs of [3x4]"));
  EXPECT_THAT(refusal({at::zeros({2, 4})}, {input, {}, {0, 1}}), HasSubstr("no targets"));
  EXPECT_THAT(refusal({}, labels), HasSubstr("no outputs"));
}

}  // namespace
}  // namespace ddp::worker
