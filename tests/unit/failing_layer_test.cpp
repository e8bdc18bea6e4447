#include "worker/train/step/failing_layer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "worker/model/norm.h"

namespace ddp::worker {
namespace {

struct Block : torch::nn::Module {
  Block()
      : conv(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)))),
        fc(register_module("fc", torch::nn::Linear(10, 2))) {}
  torch::nn::Conv2d conv;
  torch::nn::Linear fc;
};

struct Net : torch::nn::Module {
  Net() : block(register_module("block", std::make_shared<Block>())) {}
  std::shared_ptr<Block> block;  // two owners: this and the module that lists it
};

TEST(FailingLayer, LayerPathAndShapesAreNamed) {
  Net net;
  EXPECT_EQ(failing_layer(net,
                          [&] {
                            net.block->conv(torch::ones({2, 4, 8, 8}));
                          }),
            "block.conv: aten::conv2d of [2, 4, 8, 8] with weight [8, 3, 3, 3], bias [8]");
  const std::string text = failing_layer(net, [&] {
    net.block->fc(net.block->conv(torch::ones({2, 3, 8, 8})).flatten(1));
  });
  EXPECT_EQ(text, "block.fc: aten::addmm of [2, 288] with bias [2], weight [10, 2]");
}

TEST(FailingLayer, ErrorOutsideOfAllLayersNamesNone) {
  Net net;
  EXPECT_EQ(failing_layer(net, [] { torch::ones({2, 3}).matmul(torch::ones({2, 3})); }), "");
  EXPECT_EQ(failing_layer(net,
                          [&] {
                            net.block->conv(torch::ones({2, 3, 8, 8}));
                          }),
            "")
      << "it does not fail again";
  EXPECT_EQ(failing_layer(net, [] { throw std::runtime_error("own"); }), "");
}

TEST(FailingLayer, APassThatMayWaitForOtherRanksIsNotMadeAgain) {
  struct WithNorm : Net {
    WithNorm() : norm(register_module("norm", batch_norm()(3))) {}
    std::shared_ptr<Norm> norm;  // as block
  } net;
  int passes = 0;
  EXPECT_EQ(failing_layer(net, [&] { ++passes; }), "");
  EXPECT_EQ(passes, 0);
}

}  // namespace
}  // namespace ddp::worker
