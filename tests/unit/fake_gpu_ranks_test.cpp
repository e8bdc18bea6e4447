// Two ranks, each on a fake GPU of its own, whose collectives are as late as those of NCCL:
// what they learn is what two ranks on the CPU learn.
#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "fake_gpu_comparison.h"
#include "ranks.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/fake_gpu_backend.h"
#include "worker/dist/sync_batch_norm.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kTogether = 50;  // steps

using TrainRank = std::function<Trained(Group& group, const at::Device& device)>;

std::vector<Trained> on_host(const TrainRank& train_rank) {
  return on_ranks(2, [&](Group& group) { return train_rank(group, at::kCPU); });
}

std::vector<Trained> on_fake_gpus(const TrainRank& train_rank) {
  return on_ranks(2, [&](Group& group) {
    const at::Device device = fake_gpu(group.rank());
    const c10::DeviceGuard guard(device);
    connect_fake_gpus(group);
    return train_rank(group, device);
  });
}

void expect_ranks_learn_alike(const TrainRank& train_rank) {
  const std::vector<Trained> host = on_host(train_rank);
  const std::vector<Trained> there = on_fake_gpus(train_rank);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    SCOPED_TRACE(rank);
    expect_equal(there[rank], host[rank]);
    EXPECT_GE(there[rank].losses.size(), 48U) << "the last ones are on their way";
    EXPECT_EQ(there[rank].steady.host_waits, 0);
    EXPECT_EQ(there[rank].steady.event_waits, 0);
    EXPECT_EQ(there[rank].steady.early_frees, 0);
  }
}

TEST(FakeGpuRanks, ACollectiveThatNothingWaitsForIsNotSeen) {
  const std::vector<at::Tensor> seen = on_ranks(2, [](Group& group) {
    const at::Device device = fake_gpu(group.rank());
    const c10::DeviceGuard guard(device);
    connect_fake_gpus(group);
    std::vector<at::Tensor> tensors{at::full({3}, 1.0 + group.rank(), device)};
    const DeviceCounts before = fake_gpu_counts();
    const auto work = group.process_group()->allreduce(tensors);
    const at::Tensor early = tensors[0] + 0;
    work->wait();
    const at::Tensor late = tensors[0] + 0;
    EXPECT_EQ((fake_gpu_counts() - before).host_waits, 0);
    meet(group);
    return at::stack({early, late}).cpu();
  });
  EXPECT_TRUE(seen[0].equal(at::tensor({1.F, 1.F, 1.F, 3.F, 3.F, 3.F}).view({2, 3}))) << seen[0];
  EXPECT_TRUE(seen[1].equal(at::tensor({2.F, 2.F, 2.F, 3.F, 3.F, 3.F}).view({2, 3}))) << seen[1];
}

TEST(FakeGpuRanks, FiftyStepsAreThoseOfTwoRanksOnTheCpu) {
  for (const Case& one : cases()) {
    expect_ranks_learn_alike([&one](Group& group, const at::Device& device) {
      return train(group, one, device, kTogether);
    });
  }
}

/// A small net with a norm over the batches of all ranks.
class Normed : public Task {
 public:
  explicit Normed(Group& group) {
    static std::mutex drawing;  // ranks are threads here, and draw from one generator
    const std::lock_guard lock(drawing);
    torch::manual_seed(5);
    first_ = net_->register_module("first", torch::nn::Linear(6, 8));
    norm_ = net_->register_module("norm", sync_batch_norm(group)(8));
    last_ = net_->register_module("last", torch::nn::Linear(8, 4));
    net_->to(at::kDouble);
  }

  torch::nn::Module& model() override { return *net_; }
  Outputs forward(const Batch& batch) override {
    return {last_(at::tanh(norm_->forward(first_(batch.input.flatten(1)))))};
  }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    return {at::cross_entropy_loss(outputs[0], batch.targets[0].values)};
  }

 private:
  std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>();
  torch::nn::Linear first_{nullptr};
  std::shared_ptr<Norm> norm_;
  torch::nn::Linear last_{nullptr};
};

Trained train_normed(Group& group, const at::Device& device, std::int64_t steps) {
  Case one;
  one.size = 1024;
  one.device = device;
  Normed task(group);
  TaskFixture fixture(group, one, task, draw_source(one.size));
  return train(group, fixture, steps);
}

TEST(FakeGpuRanks, NormsThatMeetInBackwardLearnAsOnTheCpu) {
  expect_ranks_learn_alike([](Group& group, const at::Device& device) {
    return train_normed(group, device, kTogether);
  });
}

}  // namespace
}  // namespace ddp::worker
