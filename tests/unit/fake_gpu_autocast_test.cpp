// Training under autocast (O1) on a fake GPU: what is cast there as on a GPU learns what it
// learns on the CPU.
#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "net_fixture.h"
#include "tests/support/fake_gpu.h"
#include "worker/dist/single_process_group.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kTrained = 20;

Net convnet() {
  return {"convnet", 16, draw_source(320, {1, 28, 28, 10})};
}

AmpJob under_autocast() {
  AmpJob amp;
  amp.level = 1;
  amp.type = AmpJob::Type::bf16;
  return amp;
}

Trained train_on(const at::Device& device, const AmpJob& amp) {
  const c10::DeviceGuard guard(device);
  const std::unique_ptr<Group> alone = single_process_group();
  torch::manual_seed(3);
  NetFixture net(convnet(), *alone, device, amp);
  return train(*alone, net.fixture(), kTrained);
}

std::int64_t copies_of_step(const AmpJob& amp) {
  const std::unique_ptr<Group> alone = single_process_group();
  NetFixture net(convnet(), *alone, fake_gpu(), amp);
  for (std::int64_t step = 0; step < kWarmUp; ++step)
    (void)net.fixture().run_and_hear(step);
  const LaunchRecord record;
  (void)net.fixture().run_and_hear(kWarmUp);
  return std::ranges::count(record.names(), std::string("aten::copy_"));
}

TEST(FakeGpuAutocast, LearnsWhatTheCpuLearns) {
  const Trained host = train_on(at::kCPU, under_autocast());
  const Trained there = train_on(fake_gpu(), under_autocast());
  expect_equal(there, host);
  EXPECT_EQ(there.steady.host_waits, 0);
  EXPECT_EQ(there.steady.early_frees, 0);
  EXPECT_NE(host.losses, train_on(at::kCPU, {}).losses) << "nothing was computed in bf16";
}

/// Of two convolutions and two linear layers: weight and bias there and back, their input and its
/// gradient (the first has none), and the scores for the loss.
TEST(FakeGpuAutocast, CastsWhatIsComputedInLowPrecision) {
  EXPECT_GE(copies_of_step(under_autocast()), copies_of_step({}) + 4 * 4);
}

}  // namespace
}  // namespace ddp::worker
