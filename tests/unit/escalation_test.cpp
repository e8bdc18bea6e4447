#include "launcher/plan/round/escalation.h"

#include <gtest/gtest.h>

#include <csignal>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using EscalationAction = Escalation::Action;

const Escalation::Time kEscalationBegin{1000s};

TEST(Escalation, TheGraceEndsBySigkillAndThatByGivingUp) {
  Escalation escalation(SIGTERM, 30s);
  EXPECT_EQ(escalation.begin(kEscalationBegin), SIGTERM);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 30s);
  EXPECT_EQ(escalation.note_deadline(kEscalationBegin + 31s), EscalationAction::kill);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 38s);
  EXPECT_EQ(escalation.note_deadline(kEscalationBegin + 38s), EscalationAction::give_up);
}

TEST(Escalation, AFirstSigkillHasNoGrace) {
  Escalation escalation(SIGKILL, 30s);
  EXPECT_EQ(escalation.begin(kEscalationBegin), SIGKILL);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 7s);
  EXPECT_EQ(escalation.note_kill_command(kEscalationBegin + 1s), EscalationAction::wait);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 7s) << "it does not begin again";
  EXPECT_EQ(escalation.note_deadline(kEscalationBegin + 7s), EscalationAction::give_up);
}

TEST(Escalation, NodeZeroMayCommandSigkillBeforeTheGraceIsOver) {
  Escalation escalation(SIGTERM, 30s);
  escalation.begin(kEscalationBegin);
  EXPECT_EQ(escalation.note_kill_command(kEscalationBegin + 2s), EscalationAction::kill);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 9s);
}

TEST(Escalation, TheSecondRequestKillsAndAThirdChangesNothing) {
  Escalation escalation(SIGTERM, 30s);
  escalation.begin(kEscalationBegin);
  const auto note = [&](int signal, std::chrono::milliseconds at) {
    return escalation.note_signal(signal, kEscalationBegin + at, kEscalationBegin + at);
  };
  EXPECT_EQ(note(SIGINT, 1s), EscalationAction::wait);
  EXPECT_EQ(note(SIGINT, 1050ms), EscalationAction::wait) << "the same one, delivered twice";
  EXPECT_EQ(note(SIGUSR1, 2s), EscalationAction::wait) << "no request by its repetition";
  EXPECT_EQ(note(SIGTERM, 3s), EscalationAction::kill);
  EXPECT_EQ(note(SIGTERM, 4s), EscalationAction::wait);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 10s);
}

TEST(Escalation, ARequestFromBeforeTheStopCounts) {
  StopRequests earlier;
  earlier.note(kEscalationBegin - 1s);
  Escalation escalation(SIGINT, 30s, earlier);
  escalation.begin(kEscalationBegin);
  EXPECT_EQ(escalation.note_signal(SIGINT, kEscalationBegin + 1s, kEscalationBegin + 1s),
            EscalationAction::kill);
}

}  // namespace
}  // namespace ddp::launcher
