#include "worker/plan/plateau.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace ddp::worker {
namespace {

// The factors after each result.
std::vector<double> factors(const PlateauRule& rule,
                            double lr,
                            const std::vector<double>& results) {
  std::vector<double> factors;
  PlateauState state;
  for (const double result : results) {
    state = note_result(rule, lr, state, result);
    factors.push_back(state.factor);
  }
  return factors;
}

TEST(Plateau, DropsWhenPatienceIsOverAndCountsAnew) {
  const PlateauRule rule{.factor = 0.5, .patience = 1};
  EXPECT_EQ(factors(rule, 1, {3, 3, 3, 3, 3, 2}),
            (std::vector<double>{1, 1, 0.5, 0.5, 0.25, 0.25}));
}

TEST(Plateau, ASmallImprovementIsNone) {
  const PlateauRule rule{.factor = 0.5, .patience = 0, .threshold = 0.1};
  EXPECT_EQ(factors(rule, 1, {1, 0.95, 0.8}), (std::vector<double>{1, 0.5, 0.5}));
  const PlateauRule rising{
      .is_higher_better = true, .factor = 0.5, .patience = 0, .threshold = 0.1};
  EXPECT_EQ(factors(rising, 1, {1, 1.05, 1.2}), (std::vector<double>{1, 0.5, 0.5}));
}

TEST(Plateau, TheRateStopsAtItsLowest) {
  const PlateauRule rule{.factor = 0.1, .patience = 0, .min_lr = 0.02};
  const std::vector<double> expected{1, 0.1, 0.05, 0.05};
  EXPECT_THAT(factors(rule, 0.4, {1, 1, 1, 1}), testing::Pointwise(testing::DoubleEq(), expected));
}

TEST(Plateau, AResultThatIsNoNumberIsNoImprovement) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const PlateauState state = note_result({.patience = 3}, 1, {}, nan);
  EXPECT_EQ(state, (PlateauState{.best = {}, .bad_results = 1, .factor = 1}));
  EXPECT_EQ(note_result({}, 1, state, 2).best, 2);
}

}  // namespace
}  // namespace ddp::worker
