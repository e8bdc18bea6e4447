#include "worker/plan/amp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddp::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr AmpJob::Type kBf16 = AmpJob::Type::bf16;
constexpr AmpJob::Type kFp16 = AmpJob::Type::fp16;
constexpr LossScaleRule kFixedAt1{.start = 1, .growth = 1, .backoff = 1};

TEST(Amp, LevelsMeanWhatTheyMeanInApex) {
  EXPECT_EQ(plan_amp({0, kFp16, {}, {}}), AmpPlan{});
  EXPECT_EQ(plan_amp({1, kFp16, {}, {}}),
            (AmpPlan{.autocast = true, .loss_scale = LossScaleRule{}}));
  EXPECT_EQ(plan_amp({2, kFp16, {}, {}}),
            (AmpPlan{.weights_16_bit = true, .masters = true, .loss_scale = LossScaleRule{}}));
  EXPECT_EQ(plan_amp({3, kFp16, {}, {}}),
            (AmpPlan{.weights_16_bit = true, .norms_16_bit = true, .loss_scale = kFixedAt1}));
}

TEST(Amp, Bf16NeedsNoScale) {
  EXPECT_EQ(plan_amp({1, kBf16, {}, {}}), AmpPlan{.autocast = true});
  EXPECT_EQ(plan_amp({2, kBf16, {}, {}}), (AmpPlan{.weights_16_bit = true, .masters = true}));
  EXPECT_EQ(plan_amp({3, kBf16, {}, {}}), (AmpPlan{.weights_16_bit = true, .norms_16_bit = true}));
}

TEST(Amp, ANumberFixesTheScaleAndNormsAreChosen) {
  const AmpPlan fixed = plan_amp({1, kFp16, 128, {}});
  EXPECT_EQ(fixed.loss_scale, (LossScaleRule{.start = 128, .growth = 1, .backoff = 1}));
  EXPECT_TRUE(plan_amp({2, kFp16, {}, false}).norms_16_bit);
  EXPECT_FALSE(plan_amp({3, kFp16, {}, true}).norms_16_bit);
}

TEST(Amp, OnACpuOnlyBf16) {
  for (const int level : {1, 2, 3}) {
    EXPECT_THAT(amp_problems({level, kBf16, {}, {}}, false), IsEmpty());
    EXPECT_THAT(amp_problems({level, kFp16, {}, {}}, true), IsEmpty());
    EXPECT_THAT(amp_problems({level, kFp16, {}, {}}, false),
                ElementsAre(HasSubstr("amp.dtype: fp16 is for GPUs")));
  }
  EXPECT_THAT(amp_problems({0, kFp16, {}, {}}, false), IsEmpty()) << "the type is not used at O0";
}

TEST(Amp, RefusesWhatWouldHaveNoEffect) {
  EXPECT_THAT(amp_problems({0, kFp16, 128, {}}, true), ElementsAre(HasSubstr("needs no scale")));
  EXPECT_THAT(amp_problems({1, kBf16, 128, {}}, true), ElementsAre(HasSubstr("takes no scale")));
  EXPECT_THAT(amp_problems({1, kFp16, {}, false}, true), ElementsAre(HasSubstr("level O1 all")));
  EXPECT_THAT(amp_problems({1, kFp16, {}, true}, true), IsEmpty());
  EXPECT_THAT(amp_problems({3, kFp16, {}, true}, true), IsEmpty());
}

}  // namespace
}  // namespace ddp::worker
