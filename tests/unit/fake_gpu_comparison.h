// Trainings that are run on a fake GPU and on the CPU, and compared.
#pragma once

#include <c10/core/DeviceGuard.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "step_fixture.h"
#include "tests/support/fake_gpu.h"

namespace ddp::worker {

constexpr std::int64_t kWarmUp = 3;  // steps
// A device reads the rate in float32, and Adam of the CPU in float64: this number is in both.
constexpr double kRate = 0.0625;

inline std::vector<Case> cases() {
  Case plain;
  plain.size = 1024;
  Case all = plain;
  all.optimizer = OptimizerJob::Name::adamw;
  all.has_weight = true;
  all.accumulate = 2;
  all.has_extras = true;
  Case single = plain;  // no fused optimizer in double
  single.type = at::kFloat;
  Case resident = plain;
  resident.is_resident = true;
  Case single_all = all;
  single_all.type = at::kFloat;
  return {plain, all, single, resident, single_all};
}

struct Trained {
  std::vector<at::Tensor> weights;
  std::vector<double> losses;
  DeviceCounts steady;  // after the warm-up
};

/// Returns when all ranks have called it. The counts are of all fake GPUs.
inline void meet(Group& group) {
  at::Tensor here = at::zeros({1});
  group.all_reduce(here);
}

/// Of this rank.
inline Trained train(Group& group,
                     TaskFixture& fixture,
                     std::int64_t steps,
                     const StepRates& rates = kRate) {
  Trained trained;
  DeviceCounts before;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step == kWarmUp) before = fake_gpu_counts();
    if (const std::optional<AgreedStep> agreed = fixture.run_and_hear(step, rates))
      trained.losses.push_back(agreed->sums.mean_loss());
  }
  trained.steady = fake_gpu_counts() - before;
  meet(group);
  for (const NamedTensor& parameter : fixture.parameters())
    trained.weights.push_back(parameter.tensor.cpu());
  return trained;
}

/// On `device`, which is current meanwhile.
inline Trained train(Group& group,
                     Case one,
                     const at::Device& device,
                     std::int64_t steps,
                     const StepRates& rates = kRate) {
  const c10::DeviceGuard guard(device);
  one.device = device;
  StepFixture fixture(group, one);
  return train(group, fixture, steps, rates);
}

inline void expect_equal(const Trained& there, const Trained& host) {
  EXPECT_EQ(there.losses, host.losses);
  ASSERT_EQ(there.weights.size(), host.weights.size());
  for (std::size_t i = 0; i < host.weights.size(); ++i)
    EXPECT_TRUE(there.weights[i].equal(host.weights[i])) << i;
}

}  // namespace ddp::worker
