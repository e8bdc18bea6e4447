#include "worker/train/step/ema.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/optimizer_bench.h"

namespace ddp::worker {
namespace {

using namespace test;

// A weight, statistics, and a count, as of a batch norm.
struct Tensors {
  std::vector<NamedTensor> weights{{"weight", torch::tensor({1.0, -2.0}, at::kDouble)}};
  std::vector<NamedTensor> buffers{{"running_mean", torch::tensor({3.0F, 4.0F})},
                                   {"num_batches_tracked", torch::tensor(5, at::kLong)}};

  Ema follow(const EmaOptions& options) {
    return Ema(weights, tensors_of(weights), buffers, options);
  }

  [[nodiscard]] std::vector<NamedTensor> all() const {
    std::vector<NamedTensor> both = weights;
    both.insert(both.end(), buffers.begin(), buffers.end());
    return both;
  }

  /// As a step leaves them.
  void draw(std::uint64_t seed) {
    torch::manual_seed(seed);
    weights[0].tensor.normal_();
    buffers[0].tensor.normal_();
    buffers[1].tensor.add_(1);
  }
};

TEST(Ema, AverageDecaysExponentiallyAndIsSwappedInAndOut) {
  Bench bench;
  OptimizerJob job;
  job.ema_decay = 0.75;
  Optimizer optimizer = bench.make(job);
  auto expected = copy_by_name(bench.parameters());
  for (const std::uint64_t seed : {1, 2, 3}) {
    bench.draw_gradients(seed);
    optimizer.step(0.1);
    for (const auto& [name, tensor] : copy_by_name(bench.parameters()))
      expected[name] = expected[name] * 0.75 + tensor * 0.25;
  }
  const auto weights = copy_by_name(bench.parameters());
  {
    const EmaSwap swap(optimizer.ema());
    for (const auto& [name, tensor] : copy_by_name(bench.parameters()))
      EXPECT_TRUE(at::allclose(tensor, expected.at(name), 1e-6, 1e-6)) << name;
  }
  expect_equal(copy_by_name(bench.parameters()), weights);
  for (const auto& [name, tensor] : optimizer.ema()->averages())
    EXPECT_TRUE(at::allclose(tensor, expected.at(name), 1e-6, 1e-6)) << name << " stays";
  const EmaSwap nothing(nullptr);
  expect_equal(copy_by_name(bench.parameters()), weights);
}

TEST(Ema, AverageOfHalfWeightsIsKeptInFloat32) {
  for (const AmpJob& amp : {kMasters, AmpJob{3, AmpJob::Type::fp16, {}, {}}}) {
    Bench bench(at::kHalf, amp);
    OptimizerJob job;
    job.momentum = 0;
    job.weight_decay = 0;
    job.ema_decay = 0.999;
    Optimizer optimizer = bench.make(job);
    const auto start = copy_by_name(bench.parameters());
    bench.fill_gradients(1 / 64.F);
    optimizer.step(32);
    for (const auto& [name, tensor] : optimizer.ema()->averages()) {
      EXPECT_EQ(tensor.scalar_type(), at::kFloat);
      const at::Tensor moved = start.at(name).to(at::kFloat) - tensor;
      EXPECT_TRUE(at::allclose(moved, torch::full_like(moved, 5e-4), 0, 2e-6)) << name;
    }
    const EmaSwap swap(optimizer.ema());
    EXPECT_EQ(bench.parameters()[0].tensor.scalar_type(), at::kHalf);
  }
}

// decay * (1 - exp(-n / tau)) with n = 1, 2, ...: ModelEMA of ultralytics.
TEST(Ema, ARampGrowsTheDecayByTheUpdates) {
  Tensors model;
  Ema ema = model.follow({.decay = 0.9, .ramp = 3});
  at::Tensor weight = model.weights[0].tensor.clone();
  at::Tensor mean = model.buffers[0].tensor.clone();
  for (int n = 1; n <= 6; ++n) {
    model.draw(static_cast<std::uint64_t>(n));
    ema.update();
    const double decay = 0.9 * (1 - std::exp(-n / 3.0));
    weight = weight * decay + model.weights[0].tensor * (1 - decay);
    mean = mean * decay + model.buffers[0].tensor * (1 - decay);
    ASSERT_TRUE(at::allclose(ema.averages()[0].tensor, weight, 1e-6, 1e-7)) << "update " << n;
    ASSERT_TRUE(at::allclose(ema.averages()[1].tensor, mean, 1e-5, 1e-6)) << "update " << n;
  }
  EXPECT_EQ(copy_by_name(ema.state()).at("ema.updates").item<double>(), 6);
}

TEST(Ema, AveragesOfBuffersGoInAndOutWithThoseOfTheWeights) {
  Tensors model;
  Ema ema = model.follow({.decay = 0.75});
  model.draw(1);
  ema.update();
  EXPECT_EQ(names_of(ema.averages()), (std::vector<std::string>{"weight", "running_mean"}));
  EXPECT_EQ(names_of(ema.buffer_averages()), (std::vector<std::string>{"running_mean"}));
  EXPECT_EQ(names_of(ema.state()),
            (std::vector<std::string>{"weight.ema", "running_mean.ema", "ema.updates"}));
  EXPECT_EQ(names_of(ema.replicated_state()),
            (std::vector<std::string>{"weight.ema", "ema.updates"}));
  const auto own = copy_by_name(model.all());
  const at::Tensor expected = torch::tensor({3.0F, 4.0F}) * 0.75 + own.at("running_mean") * 0.25;
  {
    const EmaSwap swap(&ema);
    EXPECT_TRUE(at::allclose(model.buffers[0].tensor, expected));
    EXPECT_TRUE(model.weights[0].tensor.equal(ema.averages()[0].tensor));
    EXPECT_EQ(model.buffers[1].tensor.item<std::int64_t>(), 6) << "a count stays the model's";
  }
  expect_equal(copy_by_name(model.all()), own);
}

TEST(Ema, ASkippedStepLeavesAllOfItAlone) {
  for (const double ramp : {0.0, 3.0}) {
    Tensors model;
    Ema ema = model.follow({.decay = 0.9, .ramp = ramp});
    model.draw(1);
    ema.update(torch::zeros({}));
    const auto before = copy_by_name(ema.state());
    EXPECT_EQ(before.at("ema.updates").item<double>(), 1);
    model.draw(2);
    model.buffers[0].tensor[0] = std::numeric_limits<float>::quiet_NaN();
    ema.update(torch::ones({}));
    expect_equal(copy_by_name(ema.state()), before);

    // A step that is not skipped is one without the question.
    Tensors other;
    Ema plain = other.follow({.decay = 0.9, .ramp = ramp});
    other.draw(1);
    plain.update();
    expect_equal(copy_by_name(plain.state()), before);
  }
}

// A device that has failed would be waited for, or throw again.
TEST(Ema, ASwapThatAnExceptionEndsPutsAModelInTheHostsMemoryBack) {
  Tensors model;
  Ema ema = model.follow({.decay = 0.5});
  model.draw(1);
  ema.update();
  const at::Tensor own = model.weights[0].tensor.clone();
  try {
    const EmaSwap swap(&ema);
    EXPECT_FALSE(model.weights[0].tensor.equal(own));
    throw std::runtime_error("a lost peer");
  } catch (const std::runtime_error&) {
    EXPECT_TRUE(model.weights[0].tensor.equal(own)) << "a rank may go on with it";
  }
}

}  // namespace
}  // namespace ddp::worker
