#include "launcher/plan/round/restart_line.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

TEST(RestartLine, SaysWhenWithWhatAndHowOftenStill) {
  RoundResult round;
  RestartDecision decision;
  RestartFacts facts;
  facts.world_size = 3;
  facts.nodes.is_enough = true;
  facts.restarts_left = 1;
  EXPECT_EQ(describe_restart(round, decision, facts), "round 1 starts now, 1 restart is left.");
  decision.pause = 2s;
  facts.restarts_left = 2;
  EXPECT_EQ(describe_restart(round, decision, facts), "round 1 starts in 2s, 2 restarts are left.");
  facts.until_replaceable = 6s;
  facts.restarts_left.reset();
  EXPECT_EQ(describe_restart(round, decision, facts),
            "round 1 starts in 6.0 s, when the lost node's workers are surely dead.");
  round.survivors = 2;
  RestartFacts free;
  free.world_size = 3;
  free.nodes.is_enough = true;
  EXPECT_EQ(describe_restart(round, RestartDecision(), free),
            "round 1 starts now, 2 of 3 ranks wait for it.");
  round.survivor_step = 7;
  facts.replace_timeout = 60s;
  facts.nodes.has_lost = facts.nodes.may_replace = true;
  EXPECT_EQ(
      describe_restart(round, decision, facts),
      "round 1 starts when another node has come, or in 1min, 2 of 3 ranks go on from step 7.");
  facts.nodes.is_enough = false;
  EXPECT_EQ(
      describe_restart(round, decision, facts),
      "round 1 starts when another node has come, within 1min, 2 of 3 ranks go on from step 7.");
}

}  // namespace
}  // namespace ddp::launcher
