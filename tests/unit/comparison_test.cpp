#include "worker/save/checkpoint/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "worker/save/checkpoint/tensor_copy.h"

namespace ddp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Comparison, EachTensorIsEqualDifferentOrNotThere) {
  const std::vector<NamedTensor> first{{"same", torch::tensor({1.0F, kNaN})},
                                       {"moved", torch::tensor({1.0F, 2.0F, kInfinity})},
                                       {"shape", torch::zeros({2, 3})},
                                       {"gone", torch::zeros({1})},
                                       {"count", torch::tensor(7)}};
  const std::vector<NamedTensor> second{{"count", torch::tensor(9)},
                                        {"same", torch::tensor({1.0F, kNaN})},
                                        {"moved", torch::tensor({1.5F, 2.25F, kInfinity})},
                                        {"shape", torch::zeros({3, 2})},
                                        {"new", torch::zeros({1})}};
  const Comparison found = compare(view(first), view(second));
  EXPECT_EQ(found.equal, 1u);
  ASSERT_EQ(found.different.size(), 2u);
  EXPECT_EQ(found.different[0].name, "moved");
  EXPECT_EQ(found.different[0].largest, 0.5);
  EXPECT_EQ(found.different[1].name, "count");
  EXPECT_EQ(found.different[1].largest, 2);
  EXPECT_THAT(found.other_shape, ElementsAre("shape: F32 [2, 3] and F32 [3, 2]"));
  EXPECT_THAT(found.missing, ElementsAre("gone"));
  EXPECT_THAT(found.extra, ElementsAre("new"));
}

TEST(Comparison, OtherBitsAreADifferenceThoughTheNumbersAreEqual) {
  const std::vector<NamedTensor> zero{{"w", torch::tensor({0.0F})}};
  const std::vector<NamedTensor> minus{{"w", torch::tensor({-0.0F})}};
  const std::vector<NamedTensor> low{{"w", torch::tensor({0.0F}).to(torch::kBFloat16)}};
  const std::vector<NamedTensor> none{{"w", torch::tensor({kNaN})}};
  EXPECT_EQ(compare(view(zero), view(minus)).different.at(0).largest, 0);
  EXPECT_EQ(compare(view(zero), view(low)).different.at(0).dtypes, "F32, BF16");
  EXPECT_EQ(compare(view(zero), view(none)).different.at(0).largest, std::nullopt);
  EXPECT_THAT(compare(view(zero), view(zero)).different, IsEmpty());
}

TEST(Comparison, StridesOfAFileAreNoDifference) {
  const at::Tensor values = torch::arange(6, torch::kFloat).view({2, 3});
  const at::Tensor turned = values.t().contiguous();  // the same numbers, columns first
  const std::vector<NamedTensor> one{{"w", values}};
  const std::vector<NamedTensor> columns{{"w", turned}};
  std::vector<TensorView> other = view(columns);
  other[0].shape = {2, 3};
  other[0].strides = {1, 2};
  EXPECT_EQ(compare(view(one), other).equal, 1u);
}

}  // namespace
}  // namespace ddp::worker
