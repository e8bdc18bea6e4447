// The optimizer on several ranks, behind c10d's Reducer.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/unit/ranks.h"
#include "worker/dist/ddp.h"
#include "worker/train/step/optimizer.h"

namespace ddp::worker {
namespace {

struct RanksResult {
  std::vector<at::Tensor> first;  // weights before and after the step that overflows
  std::vector<at::Tensor> second;
  std::vector<at::Tensor> last;
  std::int64_t skipped_steps = 0;
  double scale = 0;
  std::vector<int> diverged_ranks;
};

std::vector<at::Tensor> copies(const Ddp& replica) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& one : replica.parameters())
    tensors.push_back(one.tensor.data().clone());
  return tensors;
}

// Four steps with float16 and float32 weights; the gradients of rank 1 overflow in the first, and
// only its float16 ones.
RanksResult train(Group& group, const OptimizerJob& job) {
  DdpRequest request;
  request.parameters = {{"norm.weight", torch::ones({4}).requires_grad_(true)},
                        {"conv.weight", torch::ones({4, 9}, at::kHalf).requires_grad_(true)}};
  Ddp replica(request, group);
  Precision precision({2, AmpJob::Type::fp16, {}, {}}, at::kCPU);
  Optimizer optimizer(job, replica, precision);
  RanksResult result;
  result.first = copies(replica);
  for (int step = 0; step < 4; ++step) {
    const bool overflows = step == 0 && group.rank() == 1;
    const double x = overflows ? 16 : 1.0 / (64 + group.rank());
    replica.prepare_to_reduce();
    const at::Tensor norm = replica.parameters()[0].tensor;
    const at::Tensor conv = replica.parameters()[1].tensor;
    const at::Tensor loss = (norm / 64).sum() + (conv * x).to(at::kFloat).sum();
    replica.backward(precision.scale(loss), true);
    optimizer.step(0.1);
    replica.remove_gradients();
    if (step == 0) result.second = copies(replica);
  }
  result.last = copies(replica);
  result.skipped_steps = precision.loss_scale()->skipped_steps();
  result.scale = precision.loss_scale()->value();
  result.diverged_ranks = replica.diverged_ranks(optimizer.state());
  return result;
}

// The all-reduce carries an infinity to every rank, so all find the same without a collective of
// their own.
TEST(OptimizerOnRanks, AnOverflowOnOneRankSkipsTheStepOnAll) {
  for (const auto name :
       {OptimizerJob::Name::sgd, OptimizerJob::Name::adam, OptimizerJob::Name::adamw}) {
    OptimizerJob job;
    job.name = name;
    job.ema_decay = 0.9;
    const std::vector<RanksResult> ranks =
        on_ranks(2, [&job](Group& group) { return train(group, job); });
    for (const RanksResult& rank : ranks) {
      EXPECT_EQ(rank.skipped_steps, 1);
      EXPECT_EQ(rank.scale, 32768);
      EXPECT_TRUE(rank.diverged_ranks.empty()) << "weights, masters, moments and scale are equal";
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(rank.first[i].equal(rank.second[i])) << i;
        EXPECT_FALSE(rank.first[i].equal(rank.last[i])) << i;
        EXPECT_TRUE(rank.last[i].equal(ranks[0].last[i])) << i;
      }
    }
  }
}

// As above in full precision, where no loss scale looks at the gradients: train.non_finite=skip.
TEST(OptimizerOnRanks, ANanOnOneRankSkipsTheStepOnAll) {
  OptimizerJob job;
  job.name = OptimizerJob::Name::adamw;
  job.ema_decay = 0.9;
  job.skips_non_finite = true;
  const auto train = [&job](Group& group) {
    const at::Tensor weight = torch::ones({3}).requires_grad_(true);
    DdpRequest request;
    request.parameters = {{"weight", weight}};
    Ddp replica(request, group);
    Precision precision({}, at::kCPU);
    Optimizer optimizer(job, replica, precision);
    std::vector<at::Tensor> after;  // each step
    for (int step = 0; step < 3; ++step) {
      replica.prepare_to_reduce();
      const double bad = std::numeric_limits<double>::quiet_NaN();
      replica.backward((weight * (step == 1 && group.rank() == 1 ? bad : 2)).sum(), true);
      optimizer.step(0.1);
      replica.remove_gradients();
      after.push_back(weight.data().clone());
    }
    EXPECT_EQ(optimizer.finite_check()->skipped_steps(), 1);
    EXPECT_TRUE(replica.diverged_ranks(optimizer.state()).empty());
    return after;
  };
  for (const std::vector<at::Tensor>& rank : on_ranks(2, train)) {
    EXPECT_TRUE(rank[1].equal(rank[0]));
    EXPECT_FALSE(rank[2].equal(rank[1]));
    EXPECT_TRUE(at::isfinite(rank[2]).all().item<bool>());
  }
}

// Each rank's running statistics are its own between evaluations, and so are their averages.
TEST(OptimizerOnRanks, AveragesOfBuffersBecomeRankZerosWithTheBuffers) {
  OptimizerJob job;
  job.ema_decay = 0.5;
  const auto train = [&job](Group& group) {
    const at::Tensor weight = torch::ones({3}).requires_grad_(true);
    const at::Tensor mean = torch::zeros({2});
    DdpRequest request;
    request.parameters = {{"weight", weight}};
    request.buffers = {{"mean", mean}};
    Ddp replica(request, group);
    Precision precision({}, at::kCPU);
    Optimizer optimizer(job, replica, precision, {request.buffers, {}});
    replica.prepare_to_reduce();
    replica.backward(weight.sum(), true);
    mean.fill_(1 + group.rank());
    optimizer.step(0.1);
    const at::Tensor average = optimizer.ema()->buffer_averages().at(0).tensor;
    EXPECT_EQ(average[0].item<float>(), 0.5F * static_cast<float>(1 + group.rank()));
    EXPECT_TRUE(replica.diverged_ranks(optimizer.replicated_state()).empty());
    EXPECT_FALSE(replica.diverged_ranks(optimizer.state()).empty()) << "the comparison sees it";
    replica.sync_buffers(optimizer.ema()->buffer_averages());
    return std::vector<at::Tensor>{average, mean};
  };
  for (const std::vector<at::Tensor>& rank : on_ranks(2, train)) {
    EXPECT_EQ(rank[0][1].item<float>(), 0.5F);
    EXPECT_EQ(rank[1][1].item<float>(), 1);
  }
}

// A trunk that every step uses, and a side: of step 0 on all ranks, of step 2 on rank 0 alone, and
// of no other step. With a static graph of none.
struct Pair {
  at::Tensor trunk = torch::tensor({1.0, -2.0, 3.0}, at::kDouble).requires_grad_(true);
  at::Tensor side = torch::tensor({0.5, 1.5, -1.0}, at::kDouble).requires_grad_(true);

  /// Each row of x counts once: over ranks the gradient is that of the mean over all rows.
  [[nodiscard]] at::Tensor loss(const at::Tensor& x, bool with_side) const {
    const at::Tensor y = (x * trunk).square().sum(1);
    return (with_side ? y + (x * side).pow(3).sum(1) : y).mean();
  }
};

constexpr int kUnusedSteps = 6;

at::Tensor rows_of(int step) {
  const at::Generator generator =
      at::detail::createCPUGenerator(40 + static_cast<std::uint64_t>(step));
  return at::randn({2, 3}, generator, at::TensorOptions(at::kDouble));
}

bool uses_side(int step, int rank, bool is_static) {
  return !is_static && (step == 0 || (step == 2 && rank == 0));
}

using Weights = std::vector<at::Tensor>;  // trunk and side after each step

Weights train_pair(Group& group, const OptimizerJob& job, bool is_static) {
  const Pair pair;
  DdpRequest request;
  request.parameters = {{"trunk", pair.trunk}, {"side", pair.side}};
  request.find_unused = true;
  request.static_graph = is_static;
  Ddp replica(request, group);
  Precision precision({}, at::kCPU);
  Optimizer optimizer(job, replica, precision);
  Weights all;
  for (int step = 0; step < kUnusedSteps; ++step) {
    replica.prepare_to_reduce();
    const at::Tensor x = rows_of(step).narrow(0, group.rank(), 1);
    replica.backward(pair.loss(x, uses_side(step, group.rank(), is_static)), /*reduce=*/true);
    optimizer.step(0.05);
    replica.remove_gradients();
    all.push_back(pair.trunk.data().clone());
    all.push_back(pair.side.data().clone());
  }
  EXPECT_TRUE(replica.diverged_ranks(optimizer.state()).empty());
  return all;
}

// One process, torch's own optimizer, and zero_grad(), which leaves no gradients.
Weights train_pair_alone(torch::optim::Optimizer& optimizer, const Pair& pair, bool is_static) {
  Weights all;
  for (int step = 0; step < kUnusedSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor x = rows_of(step);
    at::Tensor loss = pair.loss(x.narrow(0, 0, 1), uses_side(step, 0, is_static));
    loss = (loss + pair.loss(x.narrow(0, 1, 1), uses_side(step, 1, is_static))) / 2;
    loss.backward();
    optimizer.step();
    all.push_back(pair.trunk.data().clone());
    all.push_back(pair.side.data().clone());
  }
  return all;
}

Weights expected_of(const OptimizerJob& job, bool is_static) {
  const Pair pair;
  const std::vector<at::Tensor> parameters{pair.trunk, pair.side};
  if (job.name == OptimizerJob::Name::sgd) {
    torch::optim::SGD sgd(parameters,
                          torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.1));
    return train_pair_alone(sgd, pair, is_static);
  }
  if (job.name == OptimizerJob::Name::adam) {
    torch::optim::Adam adam(parameters, torch::optim::AdamOptions(0.05).weight_decay(0.1));
    return train_pair_alone(adam, pair, is_static);
  }
  torch::optim::AdamW adamw(parameters, torch::optim::AdamWOptions(0.05).weight_decay(0.1));
  return train_pair_alone(adamw, pair, is_static);
}

TEST(OptimizerOnRanks, UnusedParametersKeepTheirValuesAsWithTorch) {
  for (const auto name :
       {OptimizerJob::Name::sgd, OptimizerJob::Name::adam, OptimizerJob::Name::adamw}) {
    for (const bool is_static : {false, true}) {
      OptimizerJob job;
      job.name = name;
      job.weight_decay = 0.1;
      const Weights expected = expected_of(job, is_static);
      for (const Weights& rank :
           on_ranks(2, [&](Group& group) { return train_pair(group, job, is_static); })) {
        ASSERT_EQ(rank.size(), expected.size());
        for (std::size_t i = 0; i < rank.size(); ++i) {
          EXPECT_TRUE(at::allclose(rank[i], expected[i], 1e-12, 1e-14)) << i << rank[i];
          const std::size_t step = i / 2;
          const bool is_left_alone = i % 2 == 1 && i > 1 && (is_static || step != 2);
          EXPECT_EQ(i > 1 && rank[i].equal(rank[i - 2]), is_left_alone) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ddp::worker
