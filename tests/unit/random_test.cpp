// Random numbers that are counted: the same, no matter who draws them.
#include "worker/plan/random.h"

#include <gtest/gtest.h>

#include <set>

namespace ddp::worker {
namespace {

TEST(Random, NeighboursHaveNothingInCommon) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (std::uint64_t step = 0; step < 8; ++step) {
      for (std::uint64_t rank = 0; rank < 8; ++rank)
        seeds.insert(counted_seed(seed, step, rank));
    }
  }
  EXPECT_EQ(seeds.size(), 512U) << "neighbours share a seed";
}

TEST(Random, DrawsAreUniformAndRepeatForOneSample) {
  Random one(1, 2, 3);
  Random same(1, 2, 3);
  double sum = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double drawn = one.uniform();
    EXPECT_EQ(drawn, same.uniform());
    ASSERT_GE(drawn, 0);
    ASSERT_LT(drawn, 1);
    sum += drawn;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);  // five standard deviations
  EXPECT_LT(Random(1, 2, 4).below(10), 10U);
  EXPECT_NE(Random(1, 2, 4).next(), Random(1, 2, 3).next());
}

}  // namespace
}  // namespace ddp::worker
