#include "launcher/plan/round/node_wait.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using WaitDecision = NodeWait::Decision;

const NodeWait::Time kNow{1000s};
constexpr NodeWait::Presence kTooFew{};
constexpr NodeWait::Presence kEnough{.is_enough = true};
constexpr NodeWait::Presence kAll{.is_full = true, .is_enough = true};
constexpr NodeWait::Presence kOneLost{.is_enough = true, .has_lost = true, .may_replace = true};

NodeWait first_wait() {
  return NodeWait({.is_first = true, .limit = 900s, .last_call = 30s}, kNow);
}
NodeWait later_wait(std::chrono::milliseconds limit) {
  return NodeWait({.is_first = false, .limit = limit, .last_call = 30s}, kNow);
}

TEST(NodeWait, BeginsAtOnceWhenAllAreThere) {
  EXPECT_EQ(first_wait().advance(kAll, {}, kNow), WaitDecision::begin);
  EXPECT_EQ(later_wait(0s).advance(kAll, {}, kNow), WaitDecision::begin);
}

TEST(NodeWait, TheFirstRoundOfEnoughNodesWaitsForALastCall) {
  NodeWait wait = first_wait();
  EXPECT_EQ(wait.advance(kEnough, {}, kNow + 5s), WaitDecision::wait);
  EXPECT_TRUE(wait.take_reminder(kNow + 10s));
  EXPECT_EQ(wait.advance(kEnough, {}, kNow + 34s), WaitDecision::wait);
  EXPECT_EQ(wait.advance(kEnough, {}, kNow + 35s), WaitDecision::begin);
}

TEST(NodeWait, ALastCallIsTakenBackWhenANodeLeaves) {
  NodeWait wait = first_wait();
  EXPECT_EQ(wait.advance(kEnough, {}, kNow), WaitDecision::wait);
  EXPECT_EQ(wait.advance(kTooFew, {}, kNow + 20s), WaitDecision::wait);
  EXPECT_EQ(wait.advance(kEnough, {}, kNow + 31s), WaitDecision::wait);
  EXPECT_EQ(wait.advance(kEnough, {}, kNow + 61s), WaitDecision::begin);
}

TEST(NodeWait, TooFewNodesAreGivenUpAtTheLimit) {
  NodeWait wait = first_wait();
  EXPECT_EQ(wait.advance(kTooFew, {}, kNow + 899s), WaitDecision::wait);
  EXPECT_EQ(wait.advance(kTooFew, {}, kNow + 900s), WaitDecision::give_up);
  EXPECT_EQ(later_wait(0s).advance(kTooFew, {}, kNow), WaitDecision::give_up);
}

TEST(NodeWait, ALaterRoundOfEnoughNodesBeginsAtOnceUnlessALostOneMayBeReplaced) {
  EXPECT_EQ(later_wait(60s).advance(kEnough, {}, kNow), WaitDecision::begin);
  NodeWait wait = later_wait(60s);
  EXPECT_EQ(wait.advance(kOneLost, {}, kNow), WaitDecision::wait);
  EXPECT_EQ(wait.advance(kOneLost, {}, kNow + 59s), WaitDecision::wait);
  EXPECT_EQ(wait.deadline(), kNow + 10s) << "who is missing is to be said";
  EXPECT_EQ(wait.advance(kOneLost, {}, kNow + 60s), WaitDecision::begin);
}

TEST(NodeWait, NoRoundBeginsBeforeALostNodesWorkersHaveEnded) {
  NodeWait wait = later_wait(60s);
  EXPECT_EQ(wait.advance(kAll, kNow + 7s, kNow), WaitDecision::wait);
  EXPECT_EQ(wait.deadline(), kNow + 7s);
  EXPECT_EQ(wait.advance(kAll, kNow + 7s, kNow + 7s), WaitDecision::begin);
}

TEST(NodeWait, ALimitThatIsOverBehindAFenceWakesNobody) {
  NodeWait wait = later_wait(1s);
  EXPECT_EQ(wait.advance(kOneLost, kNow + 7s, kNow + 2s), WaitDecision::wait);
  EXPECT_EQ(wait.deadline(), kNow + 7s);
  EXPECT_EQ(wait.advance(kOneLost, kNow + 7s, kNow + 7s), WaitDecision::begin);
}

TEST(NodeWait, MissingNodesAreNamedEveryTenSeconds) {
  NodeWait wait = first_wait();
  EXPECT_FALSE(wait.take_reminder(kNow + 9s));
  EXPECT_TRUE(wait.take_reminder(kNow + 10s));
  EXPECT_FALSE(wait.take_reminder(kNow + 10s));
  EXPECT_TRUE(wait.take_reminder(kNow + 20s));
}

Hello node(const std::string& host) {
  Hello hello;
  hello.host = host;
  hello.min_nodes = 1;
  hello.max_nodes = 2;
  return hello;
}

TEST(NodeWait, ANodeIsMissingWhereOneWasLostAndNoOtherHasCome) {
  NodeTable table(node("a"), true);
  const auto awaits_another = [&table](const Round* round) {
    return NodeWait::presence_of(table, round, true).awaits_another();
  };
  EXPECT_FALSE(awaits_another(nullptr)) << "no round has begun";
  Round round(Round::Config(), {{"a", "", 1}, {"b", "10.0.0.1", 1}}, kNow);
  EXPECT_FALSE(awaits_another(&round)) << "none was lost";
  round.note_node_lost(1, "silent for 5.1 s", kNow, kNow + 5s);
  EXPECT_TRUE(awaits_another(&round));
  EXPECT_FALSE(NodeWait::presence_of(table, &round, false).awaits_another());
  table.add(node("c"));
  EXPECT_FALSE(awaits_another(&round)) << "another one has come";
  EXPECT_TRUE(NodeWait::presence_of(table, &round, true).is_full);
}

}  // namespace
}  // namespace ddp::launcher
