// How a level of mixed precision is applied, the autocast guard, and the loss.
#include "worker/train/step/precision.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <thread>

#include "worker/model/model_factory.h"
#include "worker/model/norm.h"
#include "worker/task/loss.h"

namespace ddp::worker {
namespace {

constexpr AmpJob::Type kBf16 = AmpJob::Type::bf16;
constexpr AmpJob::Type kFp16 = AmpJob::Type::fp16;

class TinyNet : public ImageModel {
 public:
  TinyNet()
      : conv_(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)))),
        norm_(register_module("norm", batch_norm()(4))),
        head_(register_module("head", torch::nn::Linear(4, 3))) {}
  at::Tensor forward(at::Tensor x) override {
    return head_(norm_->forward(conv_(x)).relu().mean({2, 3}));  // [B, 3]
  }

 private:
  torch::nn::Conv2d conv_;
  std::shared_ptr<Norm> norm_;
  torch::nn::Linear head_;
};

std::map<std::string, at::ScalarType> types_at(const AmpJob& job) {
  TinyNet net;
  use_channels_last(net);
  Precision(job, at::kCPU).prepare(net);
  std::map<std::string, at::ScalarType> types;
  for (const auto& [name, tensor] : state_of(net))
    types[name] = tensor.scalar_type();
  EXPECT_EQ(parameters_of(net)[0].tensor.strides(), (at::IntArrayRef{9, 1, 3, 1}))
      << "the layout of channels-last weights with one input channel stays";
  return types;
}

TEST(Precision, CastsWeightsAsTheLevelSays) {
  for (const int level : {0, 1}) {
    for (const auto& [name, type] : types_at({level, kBf16, {}, {}}))
      EXPECT_EQ(type, name == "norm.num_batches_tracked" ? at::kLong : at::kFloat) << name;
  }
  for (const bool keeps_norms : {true, false}) {
    const int level = keeps_norms ? 2 : 3;
    const at::ScalarType norm = keeps_norms ? at::kFloat : at::kHalf;
    const std::map<std::string, at::ScalarType> expected{{"conv.weight", at::kHalf},
                                                         {"conv.bias", at::kHalf},
                                                         {"norm.weight", norm},
                                                         {"norm.bias", norm},
                                                         {"norm.running_mean", norm},
                                                         {"norm.running_var", norm},
                                                         {"norm.num_batches_tracked", at::kLong},
                                                         {"head.weight", at::kHalf},
                                                         {"head.bias", at::kHalf}};
    EXPECT_EQ(types_at({level, kFp16, {}, {}}), expected);
    EXPECT_EQ(types_at({5 - level, kFp16, {}, keeps_norms}), expected) << "the other level, asked";
  }
}

class NormNet : public ImageModel {
 public:
  NormNet() {
    namespace nn = torch::nn;
    register_module("layers", layers_);
    layers_->push_back("conv", nn::Conv2d(nn::Conv2dOptions(1, 4, 3)));
    layers_->push_back("bn", nn::BatchNorm2d(4));
    layers_->push_back("gn", nn::GroupNorm(2, 4));
    layers_->push_back("ln", nn::LayerNorm(nn::LayerNormOptions({4, 4})));
  }
  at::Tensor forward(at::Tensor x) override { return layers_->forward(x); }  // [B, 4, 4, 4]

 private:
  torch::nn::Sequential layers_;
};

// Its layer and group norms do only on the CPU: the kernels for CUDA take one type alone.
TEST(Precision, NormsOfTorchStayInFloat32WhereTheirKernelsTakeIt) {
  for (const at::DeviceType device : {at::kCPU, at::kCUDA}) {
    NormNet net;
    const Precision precision({2, kBf16, {}, {}}, device);  // touches no device
    precision.prepare(net);
    for (const auto& [name, tensor] : state_of(net)) {
      if (!tensor.is_floating_point()) continue;
      const bool is_wide = name.find(".bn.") != std::string::npos ||
                           (device == at::kCPU && name.find("conv") == std::string::npos);
      EXPECT_EQ(tensor.scalar_type(), is_wide ? at::kFloat : at::kBFloat16) << name << device;
    }
  }
  for (const int level : {2, 3}) {
    NormNet net;
    const Precision precision({level, kBf16, {}, {}}, at::kCPU);
    precision.prepare(net);
    const at::Tensor y = net.forward(precision.input(torch::randn({2, 1, 6, 6})));
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    y.square().sum().backward();
    for (const auto& [name, tensor] : parameters_of(net)) {
      EXPECT_EQ(tensor.grad().scalar_type(), tensor.scalar_type()) << name;
      EXPECT_EQ(tensor.scalar_type() == at::kFloat,
                level == 2 && name.find("conv") == std::string::npos)
          << name;
    }
  }
}

TEST(Precision, EveryLevelTrainsOnACpuInBf16) {
  torch::manual_seed(1);
  const at::Tensor images = torch::randn({8, 1, 6, 6});
  const at::Tensor labels = torch::randint(3, {8});
  TinyNet net;
  const at::Tensor exact = net.forward(images);
  for (const int level : {0, 1, 2, 3}) {
    torch::manual_seed(1);
    (void)torch::randn({8, 1, 6, 6});
    (void)torch::randint(3, {8});
    TinyNet model;
    Precision precision({level, kBf16, {}, {}}, at::kCPU);
    precision.prepare(model);
    at::Tensor scores;
    at::Tensor loss;
    {
      const Autocast guard = precision.autocast();
      scores = model.forward(precision.input(images));
      loss = make_cross_entropy(0)(precision.output(scores), labels).total;
    }
    EXPECT_EQ(scores.scalar_type(), level == 0 ? at::kFloat : at::kBFloat16);
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::allclose(scores.to(at::kFloat), exact, 0, level == 0 ? 0 : 0.05)) << level;
    EXPECT_TRUE(precision.scale(loss).is_same(loss)) << "bf16 has no scale";
    precision.scale(loss).backward();
    for (const auto& [name, parameter] : parameters_of(model)) {
      EXPECT_EQ(parameter.grad().scalar_type(), parameter.scalar_type()) << name;
      EXPECT_TRUE(at::isfinite(parameter.grad()).all().item<bool>());
    }
  }
}

TEST(Precision, Fp16ScalesTheLoss) {
  Precision precision({2, kFp16, {}, {}}, at::kCPU);
  EXPECT_EQ(precision.scale(torch::tensor(0.5F)).item<float>(), 32768);
  EXPECT_TRUE(precision.has_masters());
  EXPECT_NE(precision.loss_scale(), nullptr);
}

TEST(Autocast, EndsWithItsGuardAndBelongsToItsThread) {
  const at::Tensor x = torch::ones({2, 2});
  const auto type = [&x] { return x.mm(x).scalar_type(); };
  {
    const Autocast outer(at::kCPU, at::kBFloat16);
    EXPECT_EQ(type(), at::kBFloat16);
    {
      const Autocast inner(at::kCPU, at::kHalf);
      EXPECT_EQ(type(), at::kHalf);
      const Autocast nothing(at::kCPU, std::nullopt);
      EXPECT_EQ(type(), at::kHalf);
    }
    EXPECT_EQ(type(), at::kBFloat16);
    at::ScalarType elsewhere = at::kBool;
    std::thread([&] { elsewhere = type(); }).join();
    EXPECT_EQ(elsewhere, at::kFloat);
  }
  EXPECT_EQ(type(), at::kFloat);
}

TEST(Autocast, GuardsOfTwoDevicesInOneAnotherEndAlone) {
  const at::Tensor x = torch::ones({2, 2});
  const auto type = [&x] { return x.mm(x).scalar_type(); };
  const auto is_on = [](at::DeviceType device) {
    return at::autocast::is_autocast_enabled(device);
  };
  const bool was_cached = at::autocast::is_autocast_cache_enabled();
  const at::ScalarType of_cuda = at::autocast::get_autocast_dtype(at::kCUDA);
  {
    const Autocast gpu(at::kCUDA, at::kHalf, Autocast::Use::on_without_cache);
    EXPECT_EQ(type(), at::kFloat);
    {
      const Autocast cpu(at::kCPU, at::kBFloat16);
      EXPECT_EQ(type(), at::kBFloat16);
      EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
      {
        const Autocast island(at::kCPU, at::kBFloat16, Autocast::Use::off);
        EXPECT_EQ(type(), at::kFloat);
        const Autocast gpu_island(at::kCUDA, at::kBFloat16, Autocast::Use::off);
        EXPECT_FALSE(is_on(at::kCUDA));
      }
      EXPECT_TRUE(is_on(at::kCUDA));
      EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCUDA), at::kHalf);
      EXPECT_EQ(type(), at::kBFloat16);
    }
    EXPECT_EQ(type(), at::kFloat);
    EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
  }
  EXPECT_FALSE(is_on(at::kCUDA) || is_on(at::kCPU));
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCUDA), of_cuda);
  EXPECT_EQ(at::autocast::is_autocast_cache_enabled(), was_cached);
}

// The cache of cast weights would hide a step from the next forward.
TEST(Autocast, SeesWeightsThatChangedBetweenTwoGuards) {
  const at::Tensor x = torch::ones({1, 2});
  const at::Tensor weight = torch::ones({1, 2}).requires_grad_(true);
  for (const float expected : {2.F, 4.F}) {
    const Autocast guard(at::kCPU, at::kBFloat16);
    EXPECT_EQ(at::linear(x, weight).item<float>(), expected);
    const at::NoGradGuard no_grad;
    weight.mul_(2);
  }
}

TEST(Loss, SmoothingIsAPartOfEveryClass) {
  torch::manual_seed(2);
  const at::Tensor scores = torch::randn({4, 5});
  const at::Tensor labels = torch::tensor({0, 4, 2, 2});
  const Loss plain = make_cross_entropy(0)(scores, labels);
  EXPECT_TRUE(plain.total.equal(at::cross_entropy_loss(scores, labels)));
  EXPECT_TRUE(plain.parts.empty());
  const Loss smooth = make_cross_entropy(0.1)(scores, labels);
  const at::Tensor target = at::one_hot(labels, 5) * 0.9 + 0.1 / 5;
  const at::Tensor expected = -(target * scores.log_softmax(1)).sum(1).mean();
  EXPECT_TRUE(at::allclose(smooth.total, expected, 1e-6, 0));
  ASSERT_EQ(smooth.parts.size(), 1u);
  EXPECT_EQ(smooth.parts[0].name, "cross-entropy");
  EXPECT_TRUE(smooth.parts[0].tensor.equal(plain.total));
}

}  // namespace
}  // namespace ddp::worker
