// Which evaluation is the best, and when there were enough without gain.
#include "worker/plan/best_result.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ddp::worker {
namespace {

TEST(BestResult, HigherOrLowerIsBetter) {
  const BestResultOptions accuracy{"accuracy", true, {}};
  BestResultState state = note_result(accuracy, {}, 0.5);
  EXPECT_EQ(state, (BestResultState{0.5, 0}));
  EXPECT_FALSE(is_gain(accuracy, state, 0.5)) << "equal is not a gain";
  EXPECT_TRUE(is_gain(accuracy, state, 0.6));
  const BestResultOptions loss{"loss", false, {}};
  EXPECT_TRUE(is_gain(loss, state, 0.4));
  EXPECT_FALSE(is_gain(loss, state, 0.6));
}

TEST(BestResult, NonFiniteResultIsNotAGain) {
  const BestResultOptions loss{"loss", false, {}};
  EXPECT_FALSE(is_gain(loss, {}, NAN));
  EXPECT_FALSE(is_gain(loss, {0.1, 0}, -INFINITY));
  EXPECT_EQ(note_result(loss, {0.1, 1}, NAN), (BestResultState{0.1, 2}));
}

TEST(BestResult, PatienceCountsEvaluationsSinceTheBest) {
  const BestResultOptions options{"loss", false, 2};
  BestResultState state;
  for (const double result : {1.0, 1.1, 0.9, 1.0}) {
    state = note_result(options, state, result);
    EXPECT_FALSE(is_out_of_patience(options, state));
  }
  state = note_result(options, state, 0.9);
  EXPECT_TRUE(is_out_of_patience(options, state));
  EXPECT_FALSE(is_out_of_patience({"loss", false, {}}, state));
}

}  // namespace
}  // namespace ddp::worker
