// Reference: plain batch norm of LibTorch, in one process, on the batches of all ranks joined.
#include "worker/dist/sync_batch_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <latch>
#include <string>
#include <vector>

#include "gpu_of_test.h"
#include "ranks.h"

namespace ddp::worker {
namespace {

using Sizes = std::vector<std::int64_t>;  // samples of each rank

struct NormCase {
  Sizes sizes;
  at::ScalarType type = at::kDouble;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  double mean = 1;
  Device device = {};
};

struct NormResult {
  at::Tensor y;
  at::Tensor dx;
  at::Tensor weight_gradient;
  at::Tensor bias_gradient;
  at::Tensor running_mean;
  at::Tensor running_var;
  std::int64_t batches = 0;
};

// Largest difference, measured by the largest value of `expected`.
double difference(const at::Tensor& actual, const at::Tensor& expected) {
  if (expected.numel() == 0) return actual.numel() == 0 ? 0 : INFINITY;
  const at::Tensor wide = expected.to(at::kDouble);
  return ((actual.to(at::kCPU, at::kDouble) - wide).abs().max() / wide.abs().max()).item<double>();
}

std::int64_t total(const Sizes& sizes) {
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes)
    sum += size;
  return sum;
}

// Two steps, so that running statistics are those of different batches; the result is the second's.
NormResult train(Norm& norm, const at::Tensor& x, const at::Tensor& dy) {
  norm.forward(x * 0.5);
  NormResult result;
  const at::Tensor input = x.clone(at::MemoryFormat::Preserve).requires_grad_(true);
  result.y = norm.forward(input);
  if (input.is_cpu()) {
    result.y.backward(dy);
    result.dx = input.grad();
    result.weight_gradient = norm.weight.grad();
    result.bias_gradient = norm.bias.grad();
  } else {
    const std::vector<at::Tensor> gradients = backward_here(result.y, dy);
    result.dx = gradients.at(0);
    result.weight_gradient = gradients.at(1);
    result.bias_gradient = gradients.at(2);
  }
  result.running_mean = norm.running_mean;
  result.running_var = norm.running_var;
  result.batches = norm.num_batches_tracked.item<std::int64_t>();
  return result;
}

std::shared_ptr<Norm> prepared(const MakeNorm& make, at::ScalarType type) {
  std::shared_ptr<Norm> norm = make(3);
  norm->to(type);
  const torch::NoGradGuard no_grad;
  norm->weight.copy_(torch::tensor({0.5, -1.5, 2.0}));
  norm->bias.copy_(torch::tensor({0.1, 0.2, -0.3}));
  return norm;
}

void expect_equal_to_the_joined_batch(const NormCase& one, double bound) {
  torch::manual_seed(11);
  const std::vector<std::int64_t> shape{total(one.sizes), 3, 4, 5};
  const at::Tensor x = (torch::randn(shape, one.type) * 2 + one.mean).contiguous(one.format);
  const at::Tensor dy = torch::randn(shape, one.type).contiguous(one.format);
  // On a GPU the reference is the CPU's, in double: the kernels are others.
  const at::ScalarType reference = one.device.device.is_cpu() ? one.type : at::kDouble;
  const NormResult joined =
      train(*prepared(batch_norm(), reference), x.to(reference), dy.to(reference));

  const auto part = [&one](const at::Tensor& whole, int rank) {
    std::int64_t begin = 0;
    for (int before = 0; before < rank; ++before)
      begin += one.sizes[static_cast<std::size_t>(before)];
    return whole.narrow(0, begin, one.sizes[static_cast<std::size_t>(rank)]);
  };
  const auto work = [&](Group& group) {
    const std::shared_ptr<Norm> norm = prepared(sync_batch_norm(group), one.type);
    const at::Device device = one.device.device;
    norm->to(device);
    return train(*norm, part(x, group.rank()).to(device), part(dy, group.rank()).to(device));
  };
  const std::vector<NormResult> ranks =
      on_ranks(static_cast<int>(one.sizes.size()), work, one.device);
  at::Tensor weight_gradient = torch::zeros({3}, reference);
  at::Tensor bias_gradient = torch::zeros({3}, reference);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const NormResult& mine = ranks[rank];
    EXPECT_LE(difference(mine.y, part(joined.y, static_cast<int>(rank))), bound);
    EXPECT_LE(difference(mine.dx, part(joined.dx, static_cast<int>(rank))), bound);
    EXPECT_LE(difference(mine.running_mean, joined.running_mean), bound);
    EXPECT_LE(difference(mine.running_var, joined.running_var), bound);
    EXPECT_TRUE(mine.running_var.equal(ranks[0].running_var)) << "the same on every rank";
    EXPECT_EQ(mine.batches, 2);
    EXPECT_TRUE(mine.y.is_contiguous(one.format));
    EXPECT_TRUE(mine.dx.is_contiguous(one.format));
    EXPECT_EQ(mine.y.scalar_type(), one.type);
    weight_gradient += mine.weight_gradient.to(at::kCPU, reference);
    bias_gradient += mine.bias_gradient.to(at::kCPU, reference);
  }
  EXPECT_LE(difference(weight_gradient, joined.weight_gradient), bound);
  EXPECT_LE(difference(bias_gradient, joined.bias_gradient), bound);
}

constexpr double kDoubleBound = 1e-12;
// Plain batch norm rounds its statistics and its output to 24 bits.
constexpr double kFloatBound = 4e-6;

TEST(SyncBatchNorm, UnevenBatchesOfTwoThreeAndFourRanksEqualTheJoinedBatch) {
  expect_equal_to_the_joined_batch({{7, 3}}, kDoubleBound);
  expect_equal_to_the_joined_batch({{1, 6, 4}}, kDoubleBound);
  expect_equal_to_the_joined_batch({{2, 5, 1, 3}}, kDoubleBound);
}

TEST(SyncBatchNorm, EvenBatchesEqualTheJoinedBatch) {
  expect_equal_to_the_joined_batch({{4, 4}}, kDoubleBound);
}

TEST(SyncBatchNorm, ChannelsLastStaysChannelsLast) {
  expect_equal_to_the_joined_batch({{7, 3}, at::kDouble, at::MemoryFormat::ChannelsLast},
                                   kDoubleBound);
  expect_equal_to_the_joined_batch({{7, 3}, at::kFloat, at::MemoryFormat::ChannelsLast},
                                   kFloatBound);
}

TEST(SyncBatchNorm, FloatEqualsTheJoinedBatchToItsRounding) {
  expect_equal_to_the_joined_batch({{7, 3}, at::kFloat}, kFloatBound);
}

TEST(SyncBatchNorm, AnEmptyBatchTakesPart) {
  expect_equal_to_the_joined_batch({{0, 5}}, kDoubleBound);
  expect_equal_to_the_joined_batch({{3, 0, 5}}, kDoubleBound);
}

// Sums of squares would leave 6 of 16 digits here.
TEST(SyncBatchNorm, AMeanFarFromZeroCostsNoDigits) {
  const NormCase far{{7, 3}, at::kDouble, at::MemoryFormat::Contiguous, 1e5};
  // x itself has a rounding of 1e5 * 1e-16 against a deviation of 2.
  expect_equal_to_the_joined_batch(far, 1e-9);
}

TEST(GpuSyncBatchNorm, GpuKernelsEqualTheCpuInDouble) {
  constexpr double kKernelBound = 1e-5;  // single precision, and a sum in another order
  const Device gpu = gpu_of_test("gloo");
  for (const at::MemoryFormat format :
       {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    expect_equal_to_the_joined_batch({{4, 4}, at::kFloat, format, 1, gpu}, kKernelBound);
    expect_equal_to_the_joined_batch({{7, 3}, at::kFloat, format, 1, gpu}, kKernelBound);
    expect_equal_to_the_joined_batch({{1, 6, 4}, at::kFloat, format, 1, gpu}, kKernelBound);
  }
}

TEST(SyncBatchNorm, EvaluationAndAWorldOfOneAreBatchNorm) {
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({4, 3, 2, 2});
  const std::shared_ptr<Norm> plain = prepared(batch_norm(), at::kFloat);
  plain->forward(x);
  plain->eval();
  const at::Tensor expected = plain->forward(x);
  std::latch both(2);  // a rank that leaves while the other one is joining ends it
  const std::vector<at::Tensor> evaluated = on_ranks(2, [&](Group& group) {
    const std::shared_ptr<Norm> norm = prepared(sync_batch_norm(group), at::kFloat);
    {
      const torch::NoGradGuard no_grad;
      norm->running_mean.copy_(plain->running_mean);
      norm->running_var.copy_(plain->running_var);
    }
    norm->eval();
    both.arrive_and_wait();
    // No collective: rank 1 asks for nothing.
    if (group.rank() == 1) return expected;
    const at::Tensor y = norm->forward(x);
    EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 0);
    return y;
  });
  EXPECT_TRUE(evaluated[0].equal(expected));

  const std::unique_ptr<Group> alone = single_process_group();
  const std::shared_ptr<Norm> norm = prepared(sync_batch_norm(*alone), at::kFloat);
  norm->forward(x);
  EXPECT_TRUE(norm->running_var.equal(plain->running_var));
}

TEST(SyncBatchNorm, MixedPrecisionGivesTheTypeOfItsInput) {
  torch::manual_seed(4);
  const at::Tensor x = torch::randn({6, 3, 2, 2}).to(at::kBFloat16);
  const std::shared_ptr<Norm> plain = prepared(batch_norm(), at::kFloat);
  const at::Tensor expected = plain->forward(x);
  const std::vector<at::Tensor> ranks = on_ranks(2, [&](Group& group) {
    const std::shared_ptr<Norm> norm = prepared(sync_batch_norm(group), at::kFloat);
    return norm->forward(x.narrow(0, 3 * group.rank(), 3));
  });
  EXPECT_EQ(ranks[0].scalar_type(), at::kBFloat16);
  EXPECT_LE(difference(at::cat({ranks[0], ranks[1]}), expected), 1.0 / 128)
      << "one unit of an 8-bit significand";
}

TEST(SyncBatchNorm, AGradientOfItsGradientIsRefused) {
  const at::Tensor x = torch::ones({2, 3, 2, 2}) + torch::arange(2).view({2, 1, 1, 1});
  const auto twice = [&](Group& group) {
    const std::shared_ptr<Norm> norm = prepared(sync_batch_norm(group), at::kFloat);
    const at::Tensor input = x.clone().requires_grad_(true);
    torch::autograd::grad({norm->forward(input).sum()}, {input}, {}, true, /*create_graph=*/true);
    return 0;
  };
  EXPECT_THROW(on_ranks(2, twice), std::logic_error);
}

}  // namespace
}  // namespace ddp::worker
