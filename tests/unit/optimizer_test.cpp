#include "worker/train/optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

#include "worker/dist/alone.h"

namespace ddp::worker {
namespace {

struct Case {
  double momentum;
  bool nesterov;
  double weight_decay;
};

class SgdCases : public ::testing::TestWithParam<Case> {};

// The reference is the frontend's own optimizer, fed with the same gradients. Not bit for bit: the
// fused kernel multiplies and adds in one rounding where the frontend rounds twice (seen from the
// second step on, in the last bit of single elements).
TEST_P(SgdCases, EqualsTorchToRounding) {
  torch::manual_seed(3);
  const at::Tensor start = torch::randn({17, 5});
  at::Tensor ours = start.clone().requires_grad_(true);
  at::Tensor theirs = start.clone().requires_grad_(true);

  const std::unique_ptr<Group> group = make_alone();
  DdpRequest request;
  request.parameters = {{"weight", ours}};
  Ddp replica(request, *group);
  OptimizerJob job;
  job.momentum = GetParam().momentum;
  job.nesterov = GetParam().nesterov;
  job.weight_decay = GetParam().weight_decay;
  Sgd sgd(job, replica);
  torch::optim::SGD reference({theirs},
                              torch::optim::SGDOptions(0.1)
                                  .momentum(GetParam().momentum)
                                  .nesterov(GetParam().nesterov)
                                  .weight_decay(GetParam().weight_decay));
  for (int step = 0; step < 6; ++step) {
    const at::Tensor x = torch::randn({17, 5});
    replica.backward((ours * x).square().sum(), true);
    (theirs * x).square().sum().backward();
    sgd.step(0.1);
    reference.step();
    replica.zero_gradients();
    reference.zero_grad();
    ASSERT_TRUE(at::allclose(ours, theirs, 1e-5, 1e-6)) << "step " << step;
  }
  EXPECT_FALSE(ours.equal(start));
  EXPECT_EQ(sgd.state().size(), GetParam().momentum == 0 ? 0u : 1u);
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         SgdCases,
                         ::testing::Values(Case{0, false, 0},
                                           Case{0.9, false, 0},
                                           Case{0.9, false, 1e-2},
                                           Case{0.9, true, 1e-2},
                                           Case{0, false, 1e-2}));

TEST(ClipNorm, EqualsTorchAndLeavesSmallGradientsAlone) {
  torch::manual_seed(4);
  for (const double limit : {0.5, 1e6}) {
    std::vector<at::Tensor> gradients{torch::randn({4, 3}), torch::randn({7})};
    std::vector<at::Tensor> parameters;
    for (const at::Tensor& gradient : gradients) {
      parameters.push_back(at::zeros_like(gradient).requires_grad_(true));
      parameters.back().mutable_grad() = gradient.clone();
    }
    torch::nn::utils::clip_grad_norm_(parameters, limit);
    clip_norm(gradients, limit);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_TRUE(at::allclose(gradients[i], parameters[i].grad(), 1e-6, 0)) << "limit " << limit;
    }
  }
}

}  // namespace
}  // namespace ddp::worker
