#include "worker/train/step/meters.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/dist/single_process_group.h"

namespace ddp::worker {
namespace {

Pass pass_of(const at::Tensor& total, std::int64_t samples) {
  Pass pass;
  pass.batch.input = at::zeros({samples, 1});
  pass.loss.total = total;
  return pass;
}

/// Counts the samples twice.
class Doubled : public Task {
 public:
  torch::nn::Module& model() override { return model_; }
  Outputs forward(const Batch&) override { return {}; }
  Loss loss(const Outputs&, const Batch&) override { return {}; }
  std::vector<NamedTensor> counts(const Outputs&, const Batch& batch) override {
    return {{"twice", at::full({}, 2 * batch.size())}};
  }

 private:
  torch::nn::Module model_;
};

TEST(Meters, AStepIsThereWhenTheNextOneIsDone) {
  Doubled task;
  PassSums learned;
  Pass pass = pass_of(at::tensor(0.5), 3);
  pass.loss.parts = {{"box", at::tensor(0.25)}};
  learned.add(task, pass);
  Meters meters(learned.names());
  const std::unique_ptr<Group> alone = single_process_group();
  EXPECT_EQ(meters.names().parts, std::vector<std::string>{"box"});
  EXPECT_EQ(meters.names().counts, std::vector<std::string>{"twice"});
  meters.add(task, pass);
  pass.loss.total = at::tensor(2.0);
  pass.batch.input = at::zeros({1, 1});
  meters.add(task, pass);
  meters.close_step(1);
  EXPECT_FALSE(meters.take(*alone, false)) << "the newest one is on its way";
  meters.add(task, pass);
  meters.close_step(2);
  const std::optional<Meters::Closed> first = meters.take(*alone, false);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->step, 1);
  EXPECT_EQ(first->sums, (StepSums{4, 3.5, 4, {1.0}, {8}}));
  EXPECT_DOUBLE_EQ(first->sums.mean_loss(), 3.5 / 4);
  EXPECT_FALSE(meters.take(*alone, false));
  const std::optional<Meters::Closed> second = meters.take(*alone, true);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->sums, (StepSums{1, 2, 1, {0.25}, {2}}));
  EXPECT_FALSE(meters.take(*alone, true));
  const StepSums& sums = first->sums;
  EXPECT_EQ(meters.names().to_sums(SumNames::to_row(sums)), sums);
  EXPECT_EQ(meters.names().count_means(sums), (NamedValues{{"twice", 2}}));
}

TEST(Meters, ALossWithAWeightIsDividedByIt) {
  Doubled task;
  PassSums sums;
  Pass pass = pass_of(at::tensor(6.0), 3);
  pass.loss.weight = at::tensor(1.5);
  sums.add(task, pass);
  pass.loss.weight = at::tensor(2.5);
  sums.add(task, pass);
  EXPECT_DOUBLE_EQ(sums.sums().mean_loss(), 3);
  EXPECT_DOUBLE_EQ(sums.sums().samples, 6);
}

}  // namespace
}  // namespace ddp::worker
