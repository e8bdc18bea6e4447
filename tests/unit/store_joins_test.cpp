#include "launcher/plan/store/store_joins.h"

#include <gmock/gmock.h>

#include <vector>

namespace ddp::launcher {
namespace {

using testing::Optional;

WorkerState here(int rank) {
  return {rank, 100 + rank, "", true, false, {}};
}
WorkerState missing(int rank) {
  return {rank, 100 + rank, "", false, false, {}};
}
WorkerState gone(int rank) {
  return {rank, 100 + rank, "", false, true, {}};
}

TEST(StoreJoins, NamesThoseThatHaveNotComeOnceOthersHave) {
  const std::vector ranks{here(0), missing(1), here(2), missing(3)};
  EXPECT_THAT(who_is_missing(ranks, 0),
              Optional(std::string("2 of 4 ranks have joined the store; still to come: rank 1 (pid "
                                   "101), rank 3 (pid 103)")));
}

TEST(StoreJoins, NobodyIsMissingBeforeTheFirstOrAfterTheLastJoin) {
  EXPECT_EQ(who_is_missing(std::vector{missing(0), missing(1)}, 0), std::nullopt);
  EXPECT_EQ(who_is_missing(std::vector{here(0), here(1)}, 0), std::nullopt);
  EXPECT_EQ(who_is_missing({}, 0), std::nullopt);
}

TEST(StoreJoins, ARankThatHasLeftIsNotMissing) {
  EXPECT_EQ(who_is_missing(std::vector{here(0), gone(1)}, 0), std::nullopt);
  EXPECT_NE(who_is_missing(std::vector{here(0), gone(1), missing(2)}, 0), std::nullopt);
}

TEST(StoreJoins, AccusesNobodyWhomAnUnknownClientCouldBe) {
  const std::vector ranks{here(0), missing(1), missing(2)};
  EXPECT_EQ(who_is_missing(ranks, 2), std::nullopt);
  EXPECT_NE(who_is_missing(ranks, 1), std::nullopt);
}

TEST(StoreJoins, NamesAFewOfMany) {
  std::vector ranks{here(0)};
  for (int rank = 1; rank <= 20; ++rank)
    ranks.push_back(missing(rank));
  const std::string line = who_is_missing(ranks, 0).value();
  EXPECT_THAT(line, testing::EndsWith("rank 8 (pid 108) and 12 more"));
}

}  // namespace
}  // namespace ddp::launcher
