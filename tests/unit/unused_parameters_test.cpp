// Parameters that no rank uses in a step, in a world of one; over ranks: optimizer_ranks_test.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

#include "worker/dist/ddp.h"
#include "worker/dist/single_process_group.h"
#include "worker/train/step/optimizer.h"

namespace ddp::worker {
namespace {

at::Tensor leaf(const std::vector<double>& values) {
  return torch::tensor(values, at::kDouble).requires_grad_(true);
}

// What torch 2.11's torch.optim (foreach=False) gives for a = [1, -2, 3] and b = [0.5, 1.5] at
// lr=0.01, weight_decay=0.1 and momentum=0.9: the loss of step k is sum(k a^2), and with sum(b^3)
// in steps 2 and 5 alone. zero_grad() leaves None.
struct Expected {
  OptimizerJob::Name name;
  std::vector<double> a;                   // after five steps
  std::vector<double> b_early;             // after steps 2, 3 and 4
  std::vector<double> b_late;              // after step 5
  std::vector<std::vector<double>> state;  // of b
};

class Unused : public testing::TestWithParam<Expected> {};

TEST_P(Unused, ParametersKeepValueAndStateAsInPython) {
  const Expected& expected = GetParam();
  const std::unique_ptr<Group> group = single_process_group();
  const at::Tensor a = leaf({1, -2, 3});
  const at::Tensor b = leaf({0.5, 1.5});
  DdpRequest request;
  request.parameters = {{"a", a}, {"b", b}};
  Ddp replica(request, *group);
  OptimizerJob job;
  job.name = expected.name;
  job.weight_decay = 0.1;
  job.momentum = 0.9;
  job.clip_norm = 1e9;
  Precision precision({}, at::kCPU);
  Optimizer optimizer(job, replica, precision);
  const auto expect_near = [](const at::Tensor& actual, const std::vector<double>& values) {
    const at::Tensor wanted = torch::tensor(values, at::kDouble).view(actual.sizes());
    EXPECT_TRUE(at::allclose(actual.to(at::kDouble), wanted, 1e-12, 1e-15)) << actual << wanted;
  };
  for (int step = 1; step <= 5; ++step) {
    const bool with_b = step == 2 || step == 5;
    // In two micro-steps; b is in the first, and the second one reduces.
    const at::Tensor half = (a * a).sum() * step / 2;
    replica.backward(with_b ? half + b.pow(3).sum() : half, /*reduce=*/false);
    replica.backward((a * a).sum() * step / 2, /*reduce=*/true);
    EXPECT_EQ(b.grad().defined(), with_b) << "step " << step;
    optimizer.step(0.01);
    replica.remove_gradients();
    if (step == 1) expect_near(b, {0.5, 1.5});
    if (step >= 2 && step < 5) expect_near(b, expected.b_early);
  }
  expect_near(a, expected.a);
  expect_near(b, expected.b_late);
  std::vector<at::Tensor> state;
  for (const auto& [name, tensor] : optimizer.state())
    if (name.starts_with("b")) state.push_back(tensor);
  ASSERT_EQ(state.size(), expected.state.size());
  for (std::size_t i = 0; i < state.size(); ++i)
    expect_near(state[i], expected.state[i]);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers,
    Unused,
    testing::Values(Expected{OptimizerJob::Name::sgd,
                             {0.433800062542299, -0.867600125084598, 1.3014001876268968},
                             {0.492, 1.431},
                             {0.47704608, 1.30603617},
                             {{1.495392, 12.496383000000002}}},
                    Expected{OptimizerJob::Name::adam,
                             {0.9513264512571942, -1.9513637490664244, 2.9513761196424504},
                             {0.490000000125, 1.4900000000144928},
                             {0.48001210979686887, 1.4800036677939785},
                             {{0.14893000003799997, 1.301930000013101},
                              {0.0012311824905846692, 0.09392895649178433},
                              {2}}},
                    Expected{OptimizerJob::Name::adamw,
                             {0.9465167911038844, -1.9415643800294167, 2.9365868362872627},
                             {0.48950000013333334, 1.4885000000148148},
                             {0.47902381122377996, 1.4770158081172649},
                             {{0.13938307503915998, 1.2721896750132307},
                              {0.0010786551477085517, 0.08969817390691955},
                              {2}}}));

}  // namespace
}  // namespace ddp::worker
