#include "worker/model/footprint.h"

#include <gtest/gtest.h>

#include "worker/model/freeze.h"
#include "worker/model/model_factory.h"

namespace ddp::worker {
namespace {

constexpr ModelSize kSize{.trainable = 1000, .frozen = 100, .buffer_bytes = 8};

TEST(Footprint, FullPrecision) {
  OptimizerJob sgd;
  const Footprint bytes = footprint(kSize, sgd, {});
  EXPECT_EQ(bytes.parameters, 4408);
  EXPECT_EQ(bytes.gradients, 4000);
  EXPECT_EQ(bytes.masters, 0);
  EXPECT_EQ(bytes.optimizer, 4000);
  EXPECT_EQ(bytes.average, 0);
  EXPECT_EQ(bytes.total(), 12408);
  sgd.momentum = 0;
  EXPECT_EQ(footprint(kSize, sgd, {}).optimizer, 0);
  sgd.ema_decay = 0.99;
  EXPECT_EQ(footprint(kSize, sgd, {}).average, 4000);
  ModelSize with_statistics = kSize;
  with_statistics.averaged_buffers = 10;
  EXPECT_EQ(footprint(with_statistics, sgd, {}).average, 4040);
  OptimizerJob adam;
  adam.name = OptimizerJob::Name::adamw;
  EXPECT_EQ(footprint(kSize, adam, {}).optimizer, 8000);
}

TEST(Footprint, HalfPrecisionKeepsMastersInO2Only) {
  OptimizerJob sgd;
  AmpJob amp;
  amp.level = 1;
  EXPECT_EQ(footprint(kSize, sgd, amp).total(), 12408) << "O1 casts as it goes";
  amp.level = 2;
  EXPECT_EQ(footprint(kSize, sgd, amp).parameters, 2208);
  EXPECT_EQ(footprint(kSize, sgd, amp).masters, 4000);
  EXPECT_EQ(footprint(kSize, sgd, amp).optimizer, 4000);
  amp.level = 3;
  EXPECT_EQ(footprint(kSize, sgd, amp).total(), 2208 + 2000 + 2000);
}

TEST(Footprint, CountsAModelAndSaysIt) {
  ModelRequest request;
  request.name = "linear";
  const Model model = build_model(request);
  freeze(*model, {"fc.bias"});
  const ModelSize size = size_of(*model);
  EXPECT_EQ(size.trainable, 7840);
  EXPECT_EQ(size.frozen, 10);
  EXPECT_EQ(size.buffer_bytes, 0);
  EXPECT_EQ(to_text(footprint(size, {}, {})),
            "91.9 KiB: parameters 30.7 KiB, gradients 30.6 KiB, optimizer 30.6 KiB");
}

TEST(Footprint, CountsStatisticsThatAreAveraged) {
  ModelRequest request;
  request.name = "resnet18";
  const ModelSize size = size_of(*build_model(request));
  EXPECT_EQ(size.averaged_buffers, 9600);  // two for each of 4,800 channels
  EXPECT_EQ(size.buffer_bytes, 4 * 9600 + 20 * 8);
}

TEST(Layout, AutomaticIsChannelsLastForConvolutions) {
  const auto layout_of = [](const std::string& name, ModelJob::Layout layout) {
    ModelRequest request;
    request.name = name;
    const Model model = build_model(request);
    const bool is_channels_last = use_layout(*model, layout);
    // One input channel: strides tell, is_contiguous does not.
    EXPECT_EQ(model->parameters()[0].stride(1) == 1, is_channels_last || name == "mlp");
    return is_channels_last;
  };
  EXPECT_TRUE(layout_of("lenet", ModelJob::Layout::automatic));
  EXPECT_TRUE(layout_of("lenet", ModelJob::Layout::channels_last));
  EXPECT_FALSE(layout_of("lenet", ModelJob::Layout::contiguous));
  EXPECT_FALSE(layout_of("mlp", ModelJob::Layout::automatic));
}

}  // namespace
}  // namespace ddp::worker
