#include "worker/plan/schedule.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

namespace ddp::worker {
namespace {

constexpr double kTolerance = 1e-15;

TEST(Schedule, NamesAreThoseOfTheJobFile) {
  EXPECT_EQ(parse_schedule_name("one-cycle"), Schedule::Kind::one_cycle);
  EXPECT_EQ(parse_schedule_name("cosine"), Schedule::Kind::cosine);
  EXPECT_EQ(parse_schedule_name("one_cycle"), std::nullopt);
}

TEST(Schedule, WarmUpRisesInEqualStepsToTheBaseRate) {
  const Schedule schedule{.base_lr = 0.4, .steps = 10, .warmup = 4};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 0.4);
}

TEST(Schedule, CosineStartsAtTheTopAfterWarmUpAndIsHalfwayInTheMiddle) {
  const Schedule schedule{
      .kind = Schedule::Kind::cosine, .base_lr = 1, .steps = 14, .warmup = 4, .min_lr = 0.2};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 1);
  EXPECT_NEAR(learning_rate(schedule, 9), 0.6, kTolerance);
  // (1 + cos(0.9 pi)) / 2 = 0.0244717418524232
  EXPECT_NEAR(learning_rate(schedule, 13), 0.2 + 0.8 * 0.0244717418524232, kTolerance);
}

TEST(Schedule, StepAndMultistepDropAtTheirSteps) {
  const Schedule step{
      .kind = Schedule::Kind::step, .base_lr = 1, .steps = 100, .gamma = 0.5, .step_size = 10};
  EXPECT_DOUBLE_EQ(learning_rate(step, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate(step, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(step, 39), 0.125);
  const Schedule multistep{.kind = Schedule::Kind::multistep,
                           .base_lr = 1,
                           .steps = 100,
                           .gamma = 0.5,
                           .milestones = {3, 3, 50}};
  EXPECT_DOUBLE_EQ(learning_rate(multistep, 2), 1);
  EXPECT_DOUBLE_EQ(learning_rate(multistep, 3), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(multistep, 50), 0.125);
}

TEST(Schedule, PolynomialFallsByItsPower) {
  const Schedule schedule{
      .kind = Schedule::Kind::polynomial, .base_lr = 1, .steps = 10, .power = 2};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5), 0.25);
}

TEST(Schedule, OneCycleRisesAndFalls) {
  const Schedule schedule{.kind = Schedule::Kind::one_cycle, .base_lr = 1, .steps = 100};
  EXPECT_NEAR(learning_rate(schedule, 0), 0.04, kTolerance);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 29), 1);
  EXPECT_NEAR(learning_rate(schedule, 99), 4e-6, kTolerance);
}

TEST(Schedule, EveryRateOfEveryScheduleIsFiniteEvenInTheShortestRuns) {
  for (const Schedule::Kind kind : {Schedule::Kind::constant,
                                    Schedule::Kind::step,
                                    Schedule::Kind::multistep,
                                    Schedule::Kind::cosine,
                                    Schedule::Kind::one_cycle,
                                    Schedule::Kind::polynomial,
                                    Schedule::Kind::plateau}) {
    for (const std::int64_t steps : {1, 2, 3, 4, 7}) {
      for (const std::int64_t warmup : {0, 1, 3, 9}) {
        const Schedule schedule{.kind = kind, .base_lr = 0.3, .steps = steps, .warmup = warmup};
        for (std::int64_t step = 0; step < steps + 3; ++step) {
          const double lr = learning_rate(schedule, step);
          EXPECT_GE(lr, 0) << static_cast<int>(kind) << " " << steps << " " << warmup;
          EXPECT_LE(lr, 0.3 * (1 + kTolerance));
        }
        EXPECT_EQ(learning_rate(schedule, steps + 2), learning_rate(schedule, steps - 1));
      }
    }
  }
}

TEST(Schedule, PolynomialAndCosineEndAtTheLowestRate) {
  for (const Schedule::Kind kind : {Schedule::Kind::polynomial, Schedule::Kind::cosine}) {
    const Schedule schedule{.kind = kind, .base_lr = 1, .steps = 1000, .min_lr = 0.25};
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 1);
    EXPECT_NEAR(learning_rate(schedule, 999), 0.25, 1e-3);
    EXPECT_NEAR(learning_rate(schedule, 500), 0.625, kTolerance);
  }
}

TEST(Schedule, BiasesAndMomentumWarmUpFromWhereTheyAreTold) {
  Schedule schedule{.kind = Schedule::Kind::constant, .base_lr = 0.01, .steps = 100, .warmup = 10};
  EXPECT_FALSE(rates_at(schedule, 4).bias_lr || rates_at(schedule, 4).momentum);
  schedule.warmup_bias_lr = 0.1;
  schedule.warmup_momentum = 0.8;
  schedule.momentum = 0.9;
  EXPECT_NEAR(rates_at(schedule, 4).lr, 0.005, kTolerance);
  EXPECT_NEAR(*rates_at(schedule, 4).bias_lr, 0.055, kTolerance);
  EXPECT_NEAR(*rates_at(schedule, 4).momentum, 0.85, kTolerance);
  EXPECT_NEAR(*rates_at(schedule, 9).bias_lr, 0.01, kTolerance);
  EXPECT_NEAR(*rates_at(schedule, 9).momentum, 0.9, kTolerance);
  EXPECT_FALSE(rates_at(schedule, 10).bias_lr || rates_at(schedule, 10).momentum);
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  EXPECT_THROW(learning_rate({.steps = 0}, 0), std::logic_error);
  EXPECT_THROW(learning_rate({.step_size = 0}, 0), std::logic_error);
  EXPECT_THROW(learning_rate({}, -1), std::logic_error);
}

}  // namespace
}  // namespace ddp::worker
