// The optimizer on several ranks, behind c10d's Reducer.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "tests/unit/ranks.h"
#include "worker/dist/ddp.h"
#include "worker/train/optimizer.h"

namespace ddp::worker {
namespace {

struct Result {
  std::vector<at::Tensor> first;  // weights before and after the step that overflows
  std::vector<at::Tensor> second;
  std::vector<at::Tensor> last;
  std::int64_t skipped_steps = 0;
  double scale = 0;
  std::vector<int> odd_ranks;
};

std::vector<at::Tensor> copies(const Ddp& replica) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& one : replica.parameters())
    tensors.push_back(one.tensor.data().clone());
  return tensors;
}

// Four steps with float16 and float32 weights; the gradients of rank 1 overflow in the first, and
// only its float16 ones.
Result train(Group& group, const OptimizerJob& job) {
  DdpRequest request;
  request.parameters = {{"norm.weight", torch::ones({4}).requires_grad_(true)},
                        {"conv.weight", torch::ones({4, 9}, at::kHalf).requires_grad_(true)}};
  Ddp replica(request, group);
  Precision precision({2, AmpJob::Type::fp16, {}, {}}, at::kCPU);
  Optimizer optimizer(job, replica, precision);
  Result result;
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
    replica.zero_gradients();
    if (step == 0) result.second = copies(replica);
  }
  result.last = copies(replica);
  result.skipped_steps = precision.loss_scale()->skipped_steps();
  result.scale = precision.loss_scale()->value();
  result.odd_ranks = replica.odd_ranks(optimizer.state());
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
    const std::vector<Result> ranks =
        on_ranks(2, [&job](Group& group) { return train(group, job); });
    for (const Result& rank : ranks) {
      EXPECT_EQ(rank.skipped_steps, 1);
      EXPECT_EQ(rank.scale, 32768);
      EXPECT_TRUE(rank.odd_ranks.empty()) << "weights, masters, moments and scale are equal";
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(rank.first[i].equal(rank.second[i])) << i;
        EXPECT_FALSE(rank.first[i].equal(rank.last[i])) << i;
        EXPECT_TRUE(rank.last[i].equal(ranks[0].last[i])) << i;
      }
    }
  }
}

}  // namespace
}  // namespace ddp::worker
