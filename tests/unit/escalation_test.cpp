#include "launcher/plan/round/escalation.h"

#include <gtest/gtest.h>

#include <csignal>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using Step = Escalation::Step;

const Escalation::Time kBegin{1000s};

TEST(Escalation, TheGraceEndsBySigkillAndThatByGivingUp) {
  Escalation escalation(SIGTERM, 30s);
  EXPECT_EQ(escalation.begin(kBegin), SIGTERM);
  EXPECT_EQ(escalation.deadline(), kBegin + 30s);
  EXPECT_EQ(escalation.note_deadline(kBegin + 31s), Step::kill);
  EXPECT_EQ(escalation.deadline(), kBegin + 38s);
  EXPECT_EQ(escalation.note_deadline(kBegin + 38s), Step::leave);
}

TEST(Escalation, AFirstSigkillHasNoGrace) {
  Escalation escalation(SIGKILL, 30s);
  EXPECT_EQ(escalation.begin(kBegin), SIGKILL);
  EXPECT_EQ(escalation.deadline(), kBegin + 7s);
  EXPECT_EQ(escalation.note_kill_command(kBegin + 1s), Step::wait);
  EXPECT_EQ(escalation.deadline(), kBegin + 7s) << "it does not begin again";
  EXPECT_EQ(escalation.note_deadline(kBegin + 7s), Step::leave);
}

TEST(Escalation, NodeZeroMayCommandSigkillBeforeTheGraceIsOver) {
  Escalation escalation(SIGTERM, 30s);
  escalation.begin(kBegin);
  EXPECT_EQ(escalation.note_kill_command(kBegin + 2s), Step::kill);
  EXPECT_EQ(escalation.deadline(), kBegin + 9s);
}

TEST(Escalation, TheSecondRequestKillsAndAThirdChangesNothing) {
  Escalation escalation(SIGTERM, 30s);
  escalation.begin(kBegin);
  const auto note = [&](int signal, std::chrono::milliseconds at) {
    return escalation.note_signal(signal, kBegin + at, kBegin + at);
  };
  EXPECT_EQ(note(SIGINT, 1s), Step::wait);
  EXPECT_EQ(note(SIGINT, 1050ms), Step::wait) << "the same one, delivered twice";
  EXPECT_EQ(note(SIGUSR1, 2s), Step::wait) << "no request by its repetition";
  EXPECT_EQ(note(SIGTERM, 3s), Step::kill);
  EXPECT_EQ(note(SIGTERM, 4s), Step::wait);
  EXPECT_EQ(escalation.deadline(), kBegin + 10s);
}

TEST(Escalation, ARequestFromBeforeTheStopCounts) {
  StopRequests earlier;
  earlier.note(kBegin - 1s);
  Escalation escalation(SIGINT, 30s, earlier);
  escalation.begin(kBegin);
  EXPECT_EQ(escalation.note_signal(SIGINT, kBegin + 1s, kBegin + 1s), Step::kill);
}

}  // namespace
}  // namespace ddp::launcher
