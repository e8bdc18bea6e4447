#include "launcher/plan/node_wait.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using Step = NodeWait::Step;

const NodeWait::Time kNow{1000s};
constexpr NodeWait::Presence kTooFew{false, false, false, false};
constexpr NodeWait::Presence kEnough{false, true, false, false};
constexpr NodeWait::Presence kAll{true, true, false, false};
constexpr NodeWait::Presence kOneLost{false, true, true, true};

NodeWait first_wait() {
  return NodeWait({.is_first = true, .limit = 900s, .last_call = 30s}, kNow);
}
NodeWait later_wait(std::chrono::milliseconds limit) {
  return NodeWait({.is_first = false, .limit = limit, .last_call = 30s}, kNow);
}

TEST(NodeWait, BeginsAtOnceWhenAllAreThere) {
  EXPECT_EQ(first_wait().look(kAll, {}, kNow), Step::begin);
  EXPECT_EQ(later_wait(0s).look(kAll, {}, kNow), Step::begin);
}

TEST(NodeWait, TheFirstRoundOfEnoughNodesWaitsForALastCall) {
  NodeWait wait = first_wait();
  EXPECT_EQ(wait.look(kEnough, {}, kNow + 5s), Step::wait);
  EXPECT_TRUE(wait.take_reminder(kNow + 10s));
  EXPECT_EQ(wait.look(kEnough, {}, kNow + 34s), Step::wait);
  EXPECT_EQ(wait.look(kEnough, {}, kNow + 35s), Step::begin);
}

TEST(NodeWait, ALastCallIsTakenBackWhenANodeLeaves) {
  NodeWait wait = first_wait();
  EXPECT_EQ(wait.look(kEnough, {}, kNow), Step::wait);
  EXPECT_EQ(wait.look(kTooFew, {}, kNow + 20s), Step::wait);
  EXPECT_EQ(wait.look(kEnough, {}, kNow + 31s), Step::wait);
  EXPECT_EQ(wait.look(kEnough, {}, kNow + 61s), Step::begin);
}

TEST(NodeWait, TooFewNodesAreGivenUpAtTheLimit) {
  NodeWait wait = first_wait();
  EXPECT_EQ(wait.look(kTooFew, {}, kNow + 899s), Step::wait);
  EXPECT_EQ(wait.look(kTooFew, {}, kNow + 900s), Step::give_up);
  EXPECT_EQ(later_wait(0s).look(kTooFew, {}, kNow), Step::give_up);
}

TEST(NodeWait, ALaterRoundOfEnoughNodesBeginsAtOnceUnlessALostOneMayBeReplaced) {
  EXPECT_EQ(later_wait(60s).look(kEnough, {}, kNow), Step::begin);
  NodeWait wait = later_wait(60s);
  EXPECT_EQ(wait.look(kOneLost, {}, kNow), Step::wait);
  EXPECT_EQ(wait.look(kOneLost, {}, kNow + 59s), Step::wait);
  EXPECT_EQ(wait.next(), kNow + 10s) << "who is missing is to be said";
  EXPECT_EQ(wait.look(kOneLost, {}, kNow + 60s), Step::begin);
}

TEST(NodeWait, NothingBeginsBehindAFence) {
  NodeWait wait = later_wait(60s);
  EXPECT_EQ(wait.look(kAll, kNow + 7s, kNow), Step::wait);
  EXPECT_EQ(wait.next(), kNow + 7s);
  EXPECT_EQ(wait.look(kAll, kNow + 7s, kNow + 7s), Step::begin);
}

TEST(NodeWait, ALimitThatIsOverBehindAFenceWakesNobody) {
  NodeWait wait = later_wait(1s);
  EXPECT_EQ(wait.look(kOneLost, kNow + 7s, kNow + 2s), Step::wait);
  EXPECT_EQ(wait.next(), kNow + 7s);
  EXPECT_EQ(wait.look(kOneLost, kNow + 7s, kNow + 7s), Step::begin);
}

TEST(NodeWait, WhoIsMissingIsSaidEveryTenSeconds) {
  NodeWait wait = first_wait();
  EXPECT_FALSE(wait.take_reminder(kNow + 9s));
  EXPECT_TRUE(wait.take_reminder(kNow + 10s));
  EXPECT_FALSE(wait.take_reminder(kNow + 10s));
  EXPECT_TRUE(wait.take_reminder(kNow + 20s));
}

}  // namespace
}  // namespace ddp::launcher
