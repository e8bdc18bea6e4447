// Training on a device that does everything late: its steps are the CPU's, nothing in a steady step
// makes the host wait, and no memory is read too early or freed too soon.
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "fake_gpu_comparison.h"
#include "step_fixture.h"
#include "tests/support/fake_gpu.h"
#include "worker/data/loading/upload.h"
#include "worker/dist/single_process_group.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kSteps = 200;

c10::impl::VirtualGuardImpl streams() {
  return c10::impl::VirtualGuardImpl(fake_gpu().type());
}

at::Tensor pinned(double value) {
  return at::full({4}, value, at::TensorOptions().pinned_memory(true));
}

bool is_all(const at::Tensor& tensor, double value) {
  return tensor.cpu().eq(value).all().item<bool>();
}

TEST(FakeGpu, ReadsPinnedMemoryLate) {
  at::Tensor there = at::zeros({4}, fake_gpu());
  at::Tensor source = pinned(1);
  there.copy_(source, /*non_blocking=*/true);
  source.fill_(7);
  EXPECT_TRUE(is_all(there, 7)) << "the copy must see what the host should not have done";
}

TEST(FakeGpu, WritesPinnedMemoryLate) {
  at::Tensor target = pinned(0);
  c10::Event copied(fake_gpu().type());
  target.copy_(at::full({4}, 3.0, fake_gpu()), /*non_blocking=*/true);
  copied.record(streams().getStream(fake_gpu()));
  EXPECT_TRUE(is_all(target, 0));
  EXPECT_FALSE(copied.query());
  copied.synchronize();
  EXPECT_TRUE(is_all(target, 3));
}

TEST(FakeGpu, AReadThatDoesNotWaitForAnotherStreamIsNaN) {
  at::Tensor there;
  c10::Event copied(fake_gpu().type());
  {
    const c10::StreamGuard other(streams().getStreamFromGlobalPool(fake_gpu()));
    there = pinned(1).to(fake_gpu(), /*non_blocking=*/true);
    copied.record(other.current_stream());
  }
  EXPECT_TRUE(at::isnan(there).all().item<bool>());
  copied.block(streams().getStream(fake_gpu()));
  EXPECT_TRUE(is_all(there, 1));
}

TEST(FakeGpu, APlantedEarlyFreeIsFound) {
  const c10::Stream side = streams().getStreamFromGlobalPool(fake_gpu());
  const c10::Stream computing = streams().getStream(fake_gpu());
  for (const bool is_recorded : {false, true}) {
    at::Tensor there;
    c10::Event copied(fake_gpu().type());
    {
      const c10::StreamGuard other(side);
      there = pinned(1).to(fake_gpu(), /*non_blocking=*/true);
      copied.record(side);
    }
    copied.block(computing);
    const at::Tensor sum = there + 1;
    if (is_recorded) there.record_stream(computing);
    const DeviceCounts before = fake_gpu_counts();
    there = at::Tensor();
    EXPECT_EQ((fake_gpu_counts() - before).early_frees, is_recorded ? 0 : 1);
    EXPECT_TRUE(is_all(sum, 2));
  }
}

Batch batch_of(double value) {
  Batch batch;
  batch.input = at::full({4, 3, 8, 8}, value, at::TensorOptions().pinned_memory(true));
  batch.targets = {{at::full({4}, value), {}}};
  return batch;
}

TEST(FakeGpuUpload, NoMemoryOfABatchIsGivenOutTooEarly) {
  const Upload upload(fake_gpu());
  at::Tensor sum = at::zeros({}, at::TensorOptions(at::kDouble).device(fake_gpu()));
  const DeviceCounts before = fake_gpu_counts();
  constexpr int kBatches = 200;
  for (int i = 1; i <= kBatches; ++i) {
    const FinishCopy finish_copy = upload.send(batch_of(i));
    const Batch batch = finish_copy();
    sum += batch.input.mean(at::kDouble) + batch.targets[0].values.mean(at::kDouble);
  }
  const DeviceCounts counts = fake_gpu_counts() - before;
  EXPECT_EQ(counts.host_waits, 0);
  EXPECT_EQ(counts.early_frees, 0);
  EXPECT_EQ(sum.item<double>(), kBatches * (kBatches + 1));
}

TEST(FakeGpuUpload, ALoaderThatSendsGivesTheSameBatches) {
  const at::Tensor plain = load_inputs({});
  for (const int threads : {0, 3}) {
    const DeviceCounts before = fake_gpu_counts();
    LoaderOptions options{.threads = threads, .send = send_to(fake_gpu()), .is_pinned = true};
    EXPECT_TRUE(load_inputs(options).equal(plain)) << threads;
    EXPECT_EQ((fake_gpu_counts() - before).early_frees, 0);
  }
}

TEST(FakeGpuStep, TwoHundredStepsAreTheCpusAndNoneMakesTheHostWait) {
  const std::unique_ptr<Group> alone = single_process_group();
  for (const Case& one : cases()) {
    Case loaded = one;
    loaded.is_resident = false;
    const Trained host = train(*alone, loaded, at::kCPU, kSteps);
    const Trained there = train(*alone, one, fake_gpu(), kSteps);
    expect_equal(there, host);
    EXPECT_EQ(there.steady.host_waits, 0);
    EXPECT_EQ(there.steady.early_frees, 0);
    EXPECT_EQ(there.steady.event_waits, 0) << "the sums of the step before are polled for";
  }
}

TEST(FakeGpuStep, ARateThatFloat32DoesNotHaveIsRoundedForAdamOnADevice) {
  const std::unique_ptr<Group> alone = single_process_group();
  Case one;
  one.type = at::kFloat;
  constexpr double kOther = 0.05;
  constexpr auto kRounded = static_cast<double>(static_cast<float>(kOther));
  static_assert(kOther != kRounded);
  for (const auto name : {OptimizerJob::Name::sgd, OptimizerJob::Name::adam}) {
    one.optimizer = name;
    const Trained host = train(*alone, one, at::kCPU, kSteps, kRounded);
    expect_equal(train(*alone, one, fake_gpu(), kSteps, kOther), host);
    // SGD of the CPU rounds it itself.
    if (name == OptimizerJob::Name::sgd)
      expect_equal(train(*alone, one, at::kCPU, kSteps, kOther), host);
  }
}

TEST(FakeGpuStep, SteadyStepsLaunchTheSameOperators) {
  const std::unique_ptr<Group> alone = single_process_group();
  for (Case one : cases()) {
    one.device = fake_gpu();
    StepFixture fixture(*alone, one);
    std::vector<std::string> first;
    for (std::int64_t step = 0; step < kWarmUp + 20; ++step) {
      const LaunchRecord record;
      (void)fixture.run_and_hear(step);
      if (step == kWarmUp) first = record.names();
      if (step > kWarmUp) {
        EXPECT_EQ(record.names(), first) << "step " << step;
      }
    }
    EXPECT_FALSE(first.empty());
    testing::Test::RecordProperty("launches", static_cast<int>(first.size()));
  }
}

}  // namespace
}  // namespace ddp::worker
