#include "worker/model/model_factory.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "common/error.h"

namespace ddp::worker {
namespace {

TEST(ModelFactory, ConvNetHasTheShapesOfTheManual) {
  const Model model = build_model({"convnet", 1, 28, 28, 10});
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::int64_t numbers = 0;
  for (const auto& item : model->named_parameters()) {
    shapes[item.key()] = item.value().sizes().vec();
    numbers += item.value().numel();
  }
  const std::map<std::string, std::vector<std::int64_t>> expected{{"conv1.weight", {24, 1, 5, 5}},
                                                                  {"conv1.bias", {24}},
                                                                  {"conv2.weight", {32, 24, 3, 3}},
                                                                  {"conv2.bias", {32}},
                                                                  {"fc1.weight", {256, 800}},
                                                                  {"fc1.bias", {256}},
                                                                  {"fc2.weight", {10, 256}},
                                                                  {"fc2.bias", {10}}};
  EXPECT_EQ(shapes, expected);
  EXPECT_EQ(numbers, 215'194);
  EXPECT_EQ(model->forward(torch::zeros({2, 1, 28, 28})).sizes(), (at::IntArrayRef{2, 10}));
}

TEST(ModelFactory, ChannelsLastChangesTheLayoutAndNotTheResult) {
  torch::manual_seed(1);
  const Model model = build_model({"convnet", 1, 28, 28, 10});
  const at::Tensor x = torch::randn({4, 1, 28, 28});
  const at::Tensor before = model->forward(x);
  use_channels_last(*model);
  const at::Tensor weight = model->named_parameters()["conv1.weight"];
  EXPECT_EQ(weight.strides(), (at::IntArrayRef{25, 1, 5, 1}))
      << "one input channel must change too";
  EXPECT_TRUE(at::allclose(model->forward(x), before, 1e-4, 1e-5));
}

TEST(ModelFactory, TooSmallImagesAndUnknownNamesAreRefused) {
  EXPECT_THROW(build_model({"convnet", 1, 11, 28, 10}), UsageError);
  EXPECT_THROW(build_model({"nonsense", 1, 28, 28, 10}), UsageError);
}

}  // namespace
}  // namespace ddp::worker
