#include "launcher/plan/round/escalation.h"

#include <gtest/gtest.h>

#include <csignal>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using EscalationStep = Escalation::Step;

const Escalation::Time kEscalationBegin{1000s};

TEST(Escalation, TheGraceEndsBySigkillAndThatByGivingUp) {
  Escalation escalation(SIGTERM, 30s);
  EXPECT_EQ(escalation.begin(kEscalationBegin), SIGTERM);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 30s);
  EXPECT_EQ(escalation.note_deadline(kEscalationBegin + 31s), EscalationStep::kill);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 38s);
  EXPECT_EQ(escalation.note_deadline(kEscalationBegin + 38s), EscalationStep::leave);
}

TEST(Escalation, AFirstSigkillHasNoGrace) {
  Escalation escalation(SIGKILL, 30s);
  EXPECT_EQ(escalation.begin(kEscalationBegin), SIGKILL);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 7s);
  EXPECT_EQ(escalation.note_kill_command(kEscalationBegin + 1s), EscalationStep::wait);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 7s) << "it does not begin again";
  EXPECT_EQ(escalation.note_deadline(kEscalationBegin + 7s), EscalationStep::leave);
}

TEST(Escalation, NodeZeroMayCommandSigkillBeforeTheGraceIsOver) {
  Escalation escalation(SIGTERM, 30s);
  escalation.begin(kEscalationBegin);
  EXPECT_EQ(escalation.note_kill_command(kEscalationBegin + 2s), EscalationStep::kill);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 9s);
}

TEST(Escalation, TheSecondRequestKillsAndAThirdChangesNothing) {
  Escalation escalation(SIGTERM, 30s);
  escalation.begin(kEscalationBegin);
  const auto note = [&](int signal, std::chrono::milliseconds at) {
    return escalation.note_signal(signal, kEscalationBegin + at, kEscalationBegin + at);
  };
  EXPECT_EQ(note(SIGINT, 1s), EscalationStep::wait);
  EXPECT_EQ(note(SIGINT, 1050ms), EscalationStep::wait) << "the same one, delivered twice";
  EXPECT_EQ(note(SIGUSR1, 2s), EscalationStep::wait) << "no request by its repetition";
  EXPECT_EQ(note(SIGTERM, 3s), EscalationStep::kill);
  EXPECT_EQ(note(SIGTERM, 4s), EscalationStep::wait);
  EXPECT_EQ(escalation.deadline(), kEscalationBegin + 10s);
}

TEST(Escalation, ARequestFromBeforeTheStopCounts) {
  StopRequests earlier;
  earlier.note(kEscalationBegin - 1s);
  Escalation escalation(SIGINT, 30s, earlier);
  escalation.begin(kEscalationBegin);
  EXPECT_EQ(escalation.note_signal(SIGINT, kEscalationBegin + 1s, kEscalationBegin + 1s),
            EscalationStep::kill);
}

}  // namespace
}  // namespace ddp::launcher
