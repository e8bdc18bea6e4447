#include "worker/dist/ddp.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <vector>

#include "worker/dist/single_process_group.h"

namespace ddp::worker {
namespace {

TEST(OddRanks, TheMinorityIsNamed) {
  EXPECT_EQ(find_diverged_ranks({7, 7, 7}), (std::vector<int>{}));
  EXPECT_EQ(find_diverged_ranks({7, 8, 7}), (std::vector<int>{1}));
  EXPECT_EQ(find_diverged_ranks({8, 7, 7}), (std::vector<int>{0}));
  EXPECT_EQ(find_diverged_ranks({8, 7}), (std::vector<int>{1})) << "no majority: rank 0 counts";
  EXPECT_EQ(find_diverged_ranks({}), (std::vector<int>{}));
}

TEST(Ddp, ADigestSeesASingleBit) {
  const std::unique_ptr<Group> group = single_process_group();
  at::Tensor weight = at::ones({1000}).requires_grad_(true);
  DdpRequest request;
  request.parameters = {{"weight", weight}};
  const Ddp replica(request, *group);
  const std::int64_t before = replica.digest();
  EXPECT_EQ(replica.digest(), before);
  static_cast<unsigned char*>(weight.data_ptr())[1234] ^= 1;
  EXPECT_NE(replica.digest(), before);
}

TEST(Ddp, AloneTheGradientsAreThoseOfTheLoss) {
  const std::unique_ptr<Group> group = single_process_group();
  at::Tensor weight = at::ones({3}).requires_grad_(true);
  DdpRequest request;
  request.parameters = {{"weight", weight}};
  Ddp replica(request, *group);
  replica.backward((weight * 2).sum(), /*reduce=*/false);
  replica.prepare_to_reduce();
  replica.backward((weight * 3).sum(), /*reduce=*/true);
  EXPECT_TRUE(replica.gradients()[0].equal(at::ones({3}) * 5)) << "micro-steps add up";
  replica.remove_gradients();
  EXPECT_FALSE(replica.gradients()[0].defined());
  replica.backward((weight * 7).sum(), /*reduce=*/true);
  EXPECT_TRUE(replica.gradients()[0].equal(at::ones({3}) * 7));
}

TEST(Ddp, AloneNoTwoGradientsShareTheirMemory) {
  const std::unique_ptr<Group> group = single_process_group();
  at::Tensor a = at::ones({4}).requires_grad_(true);
  at::Tensor b = at::ones({4}).requires_grad_(true);
  DdpRequest request;
  request.parameters = {{"a", a}, {"b", b}};
  Ddp replica(request, *group);
  for (int i = 0; i < 2; ++i)
    replica.backward((a.view({2, 2}) + b.view({2, 2})).sum(), /*reduce=*/i == 1);
  for (const at::Tensor& gradient : replica.gradients())
    EXPECT_TRUE(gradient.equal(at::ones({4}) * 2)) << gradient;
  replica.gradients()[0].mul_(3);
  EXPECT_TRUE(replica.gradients()[1].equal(at::ones({4}) * 2));
}

}  // namespace
}  // namespace ddp::worker
