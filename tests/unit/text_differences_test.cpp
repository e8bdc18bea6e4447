#include "worker/plan/text_differences.h"

#include <gtest/gtest.h>

namespace ddp::worker {
namespace {

TEST(TextDifferences, EqualTextsAgree) {
  EXPECT_EQ(find_disagreement("job", {}), "");
  EXPECT_EQ(find_disagreement("job", {{0, "a"}}), "");
  EXPECT_EQ(find_disagreement("job", {{0, "a\nb"}, {1, "a\nb"}, {2, "a\nb"}}), "");
}

TEST(TextDifferences, TheOddRankIsNamedWithBothSides) {
  EXPECT_EQ(
      find_disagreement("model", {{0, "convnet"}, {1, "lenet"}, {2, "convnet"}}),
      "the ranks differ in their model: rank 1 has \"lenet\", ranks 0 and 2 have \"convnet\"");
}

TEST(TextDifferences, RankZeroCanBeTheOddOne) {
  EXPECT_EQ(
      find_disagreement("model", {{0, "lenet"}, {1, "convnet"}, {2, "convnet"}}),
      "the ranks differ in their model: rank 0 has \"lenet\", ranks 1 and 2 have \"convnet\"");
}

TEST(TextDifferences, TieIsBrokenTowardsTheLowestRank) {
  EXPECT_EQ(find_disagreement("model", {{0, "b"}, {1, "a"}}),
            "the ranks differ in their model: rank 1 has \"a\", rank 0 has \"b\"");
}

TEST(TextDifferences, FirstDifferingLineIsShown) {
  EXPECT_EQ(find_disagreement("job", {{0, "seed: 1\nlr: 2\nx: 1"}, {1, "seed: 1\nlr: 3\nx: 2"}}),
            "the ranks differ in their job: rank 1 has \"lr: 3\", rank 0 has \"lr: 2\"");
  EXPECT_EQ(find_disagreement("job", {{0, "seed: 1\nlr: 2"}, {1, "seed: 1"}}),
            "the ranks differ in their job: rank 1 has no \"lr: 2\", rank 0 has \"lr: 2\"");
}

TEST(TextDifferences, SeveralWaysToDifferAreCounted) {
  EXPECT_EQ(find_disagreement("job", {{0, "a"}, {1, "b"}, {2, "a"}, {3, "c"}, {4, "b"}}),
            "the ranks differ in their job: ranks 1 and 4 have \"b\", ranks 0 and 2 have \"a\"; "
            "other values: rank 3");
}

TEST(TextDifferences, RanksThatHaveNotAnsweredYetDoNotCount) {
  EXPECT_EQ(find_disagreement("job", {{0, "a"}, {3, "a"}, {7, "b"}}),
            "the ranks differ in their job: rank 7 has \"b\", ranks 0 and 3 have \"a\"");
}

TEST(TextDifferences, DuplicatesAreNamedWithTheirRanks) {
  EXPECT_EQ(find_duplicates("GPU", {{0, "a"}, {1, "b"}, {2, ""}, {3, ""}}), "");
  EXPECT_EQ(find_duplicates("GPU", {{0, "a"}, {1, "b"}, {2, "b"}}),
            "ranks 1 and 2 have the same GPU, b");
}

TEST(TextDifferences, ManyRanksAreCutShort) {
  EXPECT_EQ(name_ranks({3}), "rank 3");
  EXPECT_EQ(name_ranks({0, 1, 2, 3, 4, 5, 6, 7}), "ranks 0, 1, 2, 3, 4, 5, 6 and 7");
  EXPECT_EQ(name_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8}), "ranks 0, 1, 2, 3, 4, 5, 6 and 2 more");
}

}  // namespace
}  // namespace ddp::worker
