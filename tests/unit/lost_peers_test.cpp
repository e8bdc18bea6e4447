#include "worker/plan/lost_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddp::worker {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

FailureReport late(int rank, const std::string& during = "backward") {
  return {rank, true, during};
}

FailureReport cut_off(int rank, const std::string& during = "backward") {
  return {rank, false, during};
}

PeerLoss loss(const FailureReport& own, int world_size, std::vector<FailureReport> reports) {
  PeerLoss loss;
  loss.own = own;
  loss.world_size = world_size;
  loss.timeout = 2s;
  loss.reports = std::move(reports);
  loss.cause = "its words";
  return loss;
}

TEST(LostPeers, ReportsReadBackAsWhatTheyWere) {
  const std::string lines = to_line(late(3)) + to_line(cut_off(12, "a sum over ranks"));
  EXPECT_THAT(read_reports(lines), ElementsAre(late(3), cut_off(12, "a sum over ranks")));
}

TEST(LostPeers, MalformedReportsAreIgnored) {
  EXPECT_THAT(read_reports(""), IsEmpty());
  EXPECT_THAT(read_reports("\n\n \n3\n3 \n3 lost\nx lost backward\n3 gone backward\n-"), IsEmpty());
  EXPECT_THAT(read_reports("3x lost a\n99999999999 lost a\n1 lost a"),
              ElementsAre(cut_off(1, "a")));
}

TEST(LostPeers, AConnectionThatEndedIsALostPeer) {
  PeerLoss alone = loss(cut_off(0), 2, {});
  alone.reports.reset();
  EXPECT_EQ(explain(alone), (PeerFailure{97, "lost a peer during backward: its words"}));
  EXPECT_EQ(explain(loss(cut_off(0), 2, {cut_off(0)})), explain(alone));
}

TEST(LostPeers, ATimeOutNamesTheRankThatDidNotCome) {
  const PeerFailure failure = explain(loss(late(0), 2, {late(0)}));
  EXPECT_EQ(failure.code, 124);
  EXPECT_EQ(failure.text,
            "time-out in backward after 2s (ddp.timeout): rank 1 of 2 did not come. It is stopped, "
            "hangs or is late: see what it does, or raise ddp.timeout. (its words)");
}

TEST(LostPeers, CutOffRankNamesTheSameMissingRankAsTheTimedOutOne) {
  const PeerFailure failure = explain(loss(cut_off(1), 4, {late(0), cut_off(1)}));
  EXPECT_EQ(failure.code, 124);
  EXPECT_THAT(failure.text, HasSubstr("ranks 2 and 3 of 4 did not come. They are stopped"));
}

TEST(LostPeers, AStoreThatStandsStillWithRank0NamesRank0) {
  PeerLoss silent = loss(late(1), 3, {});
  silent.reports.reset();
  EXPECT_THAT(explain(silent).text, HasSubstr("the store does not answer either"));
  silent.rank_0_serves_store = true;
  EXPECT_THAT(explain(silent).text, HasSubstr("rank 0 of 3 did not come"));
  silent.own.rank = 0;
  EXPECT_THAT(explain(silent).text, HasSubstr("the store does not answer either"));
}

TEST(LostPeers, RanksInDifferentCollectivesAreToldApart) {
  const PeerFailure failure =
      explain(loss(late(1), 2, {late(1), late(0, "a broadcast from rank 0")}));
  EXPECT_EQ(failure.code, 124);
  EXPECT_THAT(failure.text,
              HasSubstr("rank 0 is in a broadcast from rank 0, rank 1 in backward. One was late"));
  EXPECT_THAT(failure.text, HasSubstr("the same collectives in the same order"));
}

TEST(LostPeers, NobodyIsBlamedWhenEveryRankHasCome) {
  const std::string text = explain(loss(late(1), 2, {late(0), late(1)})).text;
  EXPECT_THAT(text, HasSubstr("every rank has come by now"));
  EXPECT_THAT(text, Not(HasSubstr("did not come")));
}

}  // namespace
}  // namespace ddp::worker
