#include "worker/model/norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>

#include "common/error.h"

namespace ddp::worker {
namespace {

TEST(Norm, KeysAreTorchsInTorchsOrder) {
  const std::shared_ptr<Norm> norm = batch_norm()(3);
  EXPECT_THAT(norm->named_parameters().keys(), testing::ElementsAre("weight", "bias"));
  EXPECT_THAT(norm->named_buffers().keys(),
              testing::ElementsAre("running_mean", "running_var", "num_batches_tracked"));
  EXPECT_EQ(norm->num_batches_tracked.scalar_type(), at::kLong);
  EXPECT_EQ(norm->num_batches_tracked.dim(), 0);
}

TEST(Norm, OneValuePerChannelHasNoVariance) {
  const std::shared_ptr<Norm> norm = batch_norm()(2);
  EXPECT_THROW(norm->forward(torch::ones({1, 2, 1, 1})), UsageError);
  EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 0);
  norm->eval();
  EXPECT_NO_THROW(norm->forward(torch::ones({1, 2, 1, 1})));
}

TEST(Norm, BatchIsBitEqualToTorchsBatchNorm) {
  torch::manual_seed(5);
  const std::shared_ptr<Norm> ours = batch_norm()(4);
  torch::nn::BatchNorm2d theirs(4);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor data = torch::randn({5, 4, 3, 2}) * 2 + 1;
    const at::Tensor to_ours = data.clone().requires_grad_(true);
    const at::Tensor to_theirs = data.clone().requires_grad_(true);
    const at::Tensor from_ours = ours->forward(to_ours);
    const at::Tensor from_theirs = theirs(to_theirs);
    ASSERT_TRUE(from_ours.equal(from_theirs));
    from_ours.pow(3).sum().backward();
    from_theirs.pow(3).sum().backward();
    ASSERT_TRUE(to_ours.grad().equal(to_theirs.grad()));
    ASSERT_TRUE(ours->weight.grad().equal(theirs->weight.grad()));
    ASSERT_TRUE(ours->bias.grad().equal(theirs->bias.grad()));
  }
  EXPECT_TRUE(ours->running_mean.equal(theirs->running_mean));
  EXPECT_TRUE(ours->running_var.equal(theirs->running_var));
  EXPECT_EQ(ours->num_batches_tracked.item<std::int64_t>(), 3);
  ours->eval();
  theirs->eval();
  const at::Tensor data = torch::randn({2, 4, 3, 2});
  EXPECT_TRUE(ours->forward(data).equal(theirs(data)));
  EXPECT_EQ(ours->num_batches_tracked.item<std::int64_t>(), 3);
}

struct NormBlock : torch::nn::Module {
  NormBlock() {
    register_module("bn", torch::nn::BatchNorm2d(2));
    register_module("ours", batch_norm()(2));
    register_module("ln", torch::nn::LayerNorm(torch::nn::LayerNormOptions({2, 3})));
  }
};

struct Tower : torch::nn::Module {
  Tower() {
    register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 2, 1)));
    register_module("block", std::make_shared<NormBlock>());
    register_module("gn", torch::nn::GroupNorm(1, 2));
  }
};

TEST(Norm, LayersOfTorchAreKnownByTheirKind) {
  namespace nn = torch::nn;
  EXPECT_EQ(norm_kind(*batch_norm()(2)), NormKind::batch);
  EXPECT_EQ(norm_kind(*nn::BatchNorm1d(2)), NormKind::batch);
  EXPECT_EQ(norm_kind(*nn::BatchNorm3d(2)), NormKind::batch);
  EXPECT_EQ(norm_kind(*nn::InstanceNorm2d(2)), NormKind::batch);
  EXPECT_EQ(norm_kind(*nn::LayerNorm(nn::LayerNormOptions({2}))), NormKind::layer);
  EXPECT_EQ(norm_kind(*nn::GroupNorm(1, 2)), NormKind::layer);
  EXPECT_EQ(norm_kind(*nn::Linear(1, 2)), NormKind::none);
  EXPECT_EQ(norm_kind(*nn::Sequential(nn::BatchNorm2d(2))), NormKind::none);
  EXPECT_THAT(norm_parameters_of(Tower()),
              testing::ElementsAre("block.bn.weight",
                                   "block.bn.bias",
                                   "block.ours.weight",
                                   "block.ours.bias",
                                   "block.ln.weight",
                                   "block.ln.bias",
                                   "gn.weight",
                                   "gn.bias"));
}

TEST(Norm, SyncIsRefusedForAModelThatDoesNotUseIt) {
  const auto problem = [](const torch::nn::Module& model, int asked) {
    try {
      require_synced_norms(model, "tower", asked);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(problem(*torch::nn::Linear(1, 2), 0),
              testing::HasSubstr("nothing in model tower uses it"));
  EXPECT_EQ(problem(*torch::nn::Linear(1, 2), 1), "");
  EXPECT_THAT(problem(Tower(), 1),
              testing::AllOf(testing::HasSubstr("block.bn of model tower"),
                             testing::HasSubstr("request's norm(channels)")));
  EXPECT_EQ(problem(*torch::nn::GroupNorm(1, 2), 1), "");
}

}  // namespace
}  // namespace ddp::worker
