#include "launcher/plan/round/node_commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <random>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using Meaning = NodeCommands::Meaning;
using CommandState = NodeCommands::State;

constexpr int kWorkers = 2;

StartRound start_of(int round) {
  return StartRound{round, 1, {1, kWorkers}, {0, 0}, 29500, ""};
}
EndRound end_round_of(int round, int signal = SIGTERM) {
  return EndRound{round, EndReason::worker_failed, "why", signal, 30s, false};
}
EndJob end_job_by(int code) {
  EndJob end;
  end.exit_code = code;
  return end;
}

/// A node in one of its states; round 3 is its newest.
enum class At {
  waiting,
  waiting_after_a_round,
  start_kept,
  running,
  end_round_kept,
  ending,
  end_job_kept
};

NodeCommands commands_at(At at) {
  NodeCommands commands(kWorkers, 5s);
  if (at == At::waiting) return commands;
  if (at == At::end_job_kept) commands.note(end_job_by(7));
  if (at == At::end_job_kept) return commands;
  EXPECT_EQ(commands.note(start_of(3)), Meaning::noted);
  if (at == At::start_kept) return commands;
  EXPECT_EQ(commands.begin_round(), start_of(3));
  if (at == At::running) return commands;
  EXPECT_EQ(commands.note(end_round_of(3)), Meaning::noted);
  if (at == At::end_round_kept) return commands;
  commands.begin_ending();
  if (at == At::ending) return commands;
  commands.note_ended();
  return commands;
}

struct Row {
  At at;
  Meaning newer_start;
  Meaning same_start;
  Meaning announce;
  Meaning end_round;
  Meaning kill;
  Meaning end_job;
};

// Row by row, the table of node_commands.h.
TEST(NodeCommands, EveryCommandHasItsMeaningInEveryState) {
  constexpr Meaning kKept = Meaning::noted;
  constexpr Meaning kIgnored = Meaning::ignored;
  constexpr Meaning kNonsense = Meaning::nonsense;
  constexpr Meaning kKill = Meaning::kill;
  for (const Row& row : {
           Row{At::waiting, kKept, kKept, kIgnored, kIgnored, kIgnored, kKept},
           Row{At::waiting_after_a_round, kKept, kNonsense, kIgnored, kIgnored, kIgnored, kKept},
           Row{At::start_kept, kNonsense, kNonsense, kIgnored, kKept, kKept, kKept},
           Row{At::running, kNonsense, kNonsense, Meaning::announce, kKept, kKept, kKept},
           Row{At::end_round_kept, kNonsense, kNonsense, kIgnored, kIgnored, kKill, kKept},
           Row{At::ending, kNonsense, kNonsense, kIgnored, kIgnored, kKill, kKept},
           Row{At::end_job_kept, kIgnored, kIgnored, kIgnored, kIgnored, kIgnored, kIgnored},
       }) {
    SCOPED_TRACE("state " + std::to_string(static_cast<int>(row.at)));
    EXPECT_EQ(commands_at(row.at).note(start_of(4)), row.newer_start);
    EXPECT_EQ(commands_at(row.at).note(start_of(3)), row.same_start);
    EXPECT_EQ(commands_at(row.at).note(AnnounceStop{3, ""}), row.announce);
    EXPECT_EQ(commands_at(row.at).note(end_round_of(3)), row.end_round);
    EXPECT_EQ(commands_at(row.at).note(end_round_of(3, SIGKILL)), row.kill);
    EXPECT_EQ(commands_at(row.at).note(end_job_by(9)), row.end_job);
    // Of other rounds, and heartbeats.
    for (const int round : {2, 4}) {
      EXPECT_EQ(commands_at(row.at).note(end_round_of(round)), kIgnored);
      EXPECT_EQ(commands_at(row.at).note(end_round_of(round, SIGKILL)), kIgnored);
      EXPECT_EQ(commands_at(row.at).note(AnnounceStop{round, ""}), kIgnored);
    }
    EXPECT_EQ(commands_at(row.at).note(Heartbeat{5, {}}), kIgnored);
  }
}

TEST(NodeCommands, AnOlderStartIsNonsense) {
  EXPECT_EQ(commands_at(At::waiting_after_a_round).note(start_of(2)), Meaning::nonsense);
  EXPECT_EQ(commands_at(At::running).note(start_of(2)), Meaning::nonsense);
}

TEST(NodeCommands, AStartForAnotherNumberOfWorkersIsNonsense) {
  NodeCommands commands(kWorkers, 5s);
  StartRound start = start_of(0);
  start.workers_of_node = {kWorkers, 3};
  EXPECT_EQ(commands.note(start), Meaning::nonsense);
  start.node_rank = 7;
  EXPECT_EQ(commands.note(start), Meaning::nonsense);
  EXPECT_FALSE(commands.has_next());
}

TEST(NodeCommands, NodeZerosTerminalIsTakenInAJobWithATokenAlone) {
  StartRound start = start_of(0);
  start.terminal.emplace();
  EXPECT_EQ(NodeCommands(kWorkers, 5s).note(start), Meaning::nonsense);
  EXPECT_EQ(NodeCommands(kWorkers, 5s, /*has_token=*/true).note(start), Meaning::noted);
  start.terminal->local_rank = kWorkers;
  EXPECT_EQ(NodeCommands(kWorkers, 5s, /*has_token=*/true).note(start), Meaning::nonsense);
}

TEST(NodeCommands, WhatIsTypedAtNodeZeroIsPassedOnOnceAStartHasItsTerminal) {
  const auto expect = [](NodeCommands& commands, Meaning meaning) {
    EXPECT_EQ(commands.note(TerminalInput{"c\r"}), meaning);
    EXPECT_EQ(commands.note(TerminalResized{{80, 24}}), meaning);
    EXPECT_EQ(commands.note(TerminalShown()), meaning);
  };
  for (const bool has_terminal : {false, true}) {
    const auto meaning = [&](Meaning with) { return has_terminal ? with : Meaning::nonsense; };
    NodeCommands commands(kWorkers, 5s, /*has_token=*/true);
    expect(commands, Meaning::nonsense);
    StartRound start = start_of(0);
    if (has_terminal) start.terminal.emplace();
    EXPECT_EQ(commands.note(start), Meaning::noted);
    expect(commands, meaning(Meaning::terminal));
    (void)commands.begin_round();
    expect(commands, meaning(Meaning::terminal));
    EXPECT_EQ(commands.note(end_round_of(0)), Meaning::noted);
    commands.begin_ending();
    expect(commands, meaning(Meaning::terminal));
    commands.note_ended();
    expect(commands, meaning(Meaning::terminal));
  }
}

TEST(NodeCommands, AnEndJobInARoundEndsTheWorkersFirst) {
  NodeCommands commands = commands_at(At::running);
  commands.note(end_job_by(9));
  ASSERT_TRUE(commands.end_command());
  EXPECT_EQ(commands.end_command()->round, 3);
  EXPECT_EQ(commands.end_command()->signal, SIGTERM);
  EXPECT_EQ(commands.end_command()->grace, 5s);
  EXPECT_EQ(commands.note(end_round_of(3, SIGKILL)), Meaning::kill);
  commands.begin_ending();
  commands.note_ended();
  EXPECT_TRUE(commands.has_next());
  EXPECT_EQ(commands.end_job()->exit_code, 9);
}

TEST(NodeCommands, AnEndJobTakesAKeptStartBack) {
  NodeCommands commands = commands_at(At::start_kept);
  commands.note(end_job_by(9));
  EXPECT_TRUE(commands.end_job());
  EXPECT_EQ(commands.note(end_round_of(3)), Meaning::ignored);
}

TEST(NodeCommands, AnEndRoundBeforeItsRoundHasBegunIsNotLost) {
  NodeCommands commands = commands_at(At::start_kept);
  commands.note(end_round_of(3));
  commands.begin_round();
  ASSERT_TRUE(commands.end_command());
  EXPECT_EQ(commands.note(end_round_of(3, SIGKILL)), Meaning::kill);
  EXPECT_EQ(commands.end_command()->signal, SIGKILL);
}

TEST(NodeCommands, AnAgentThatAsksTwiceAndHearsNothingMayLeave) {
  const NodeCommands::Time begin{100s};
  NodeCommands commands = commands_at(At::running);
  commands.note_stop_request(SIGTERM, begin);
  EXPECT_FALSE(commands.is_stop_unanswered(begin + 1h)) << "once is a wish, not a command";
  commands.note_stop_request(SIGTERM, begin + 50ms);
  EXPECT_FALSE(commands.is_stop_unanswered(begin + 1h)) << "a wrapper delivers it twice";
  commands.note_stop_request(SIGTERM, begin + 200ms);
  EXPECT_FALSE(commands.is_stop_unanswered(begin + 1100ms)) << "node 0 has a second to answer";
  EXPECT_TRUE(commands.is_stop_unanswered(begin + 1200ms));
  NodeCommands answered = commands;
  answered.note(end_round_of(3));
  EXPECT_FALSE(answered.is_stop_unanswered(begin + 1h));
  answered.begin_ending();
  answered.note_ended();
  EXPECT_FALSE(answered.is_stop_unanswered(begin + 1h)) << "that was answered";
  answered.note_stop_request(SIGTERM, begin + 2h);
  answered.note_stop_request(SIGTERM, begin + 3h);
  EXPECT_FALSE(answered.is_stop_unanswered(begin + 3h));
  EXPECT_TRUE(answered.is_stop_unanswered(begin + 3h + 1s));
}

TEST(NodeCommands, AStopRequestWhileARoundEndsIsHeard) {
  const NodeCommands::Time begin{100s};
  NodeCommands commands = commands_at(At::running);
  commands.note(end_round_of(3));
  commands.begin_ending();
  commands.note_stop_request(SIGTERM, begin);
  commands.note_stop_request(SIGTERM, begin + 500ms);
  commands.note_ended();
  EXPECT_FALSE(commands.is_stop_unanswered(begin + 1h)) << "other nodes may still be ending theirs";
}

TEST(NodeCommands, AStopRequestThatLedToTheEndIsTheFirstOfTwo) {
  using Action = Escalation::Action;
  const NodeCommands::Time begin{100s};
  const auto ask_again = [begin](const NodeCommands& commands) {
    Escalation escalation = commands.escalation();
    escalation.begin(begin + 1s);
    return escalation.note_signal(SIGTERM, begin + 2s, begin + 2s);
  };
  NodeCommands commands = commands_at(At::running);
  EndRound command = end_round_of(3);
  command.reason = EndReason::user;
  NodeCommands asked = commands;
  asked.note_stop_request(SIGINT, begin);
  EXPECT_EQ(asked.requested_signal(), SIGINT);
  NodeCommands failed = asked;
  asked.note(command);
  EXPECT_EQ(ask_again(asked), Action::kill);

  NodeCommands elsewhere = commands;  // another node's user has asked
  elsewhere.note(command);
  EXPECT_EQ(ask_again(elsewhere), Action::wait);

  NodeCommands announced = commands;  // SIGTERM comes some time later: that is the first
  announced.note_stop_request(SIGUSR1, begin);
  EXPECT_EQ(announced.requested_signal(), 0);
  announced.note(command);
  EXPECT_EQ(ask_again(announced), Action::wait);

  command.reason = EndReason::worker_failed;  // it has not led to this end
  failed.note(command);
  EXPECT_EQ(ask_again(failed), Action::wait);
}

// Others take events out of the inbox before the workers are ended: who waits for survivors, or for
// stacks.
TEST(NodeCommands, AStopRequestSinceTheEndCountsWhoeverHasSeenIt) {
  using Action = Escalation::Action;
  const NodeCommands::Time begin{100s};
  NodeCommands commands = commands_at(At::ending);
  EXPECT_TRUE(commands.note_stop_request(SIGTERM, begin)) << "it is answered by a line";
  NodeCommands without_node_zero =
      commands;  // node 0 is lost, and plan/round/node_zero_lost gives its commands
  EXPECT_EQ(without_node_zero.note(end_round_of(3)), Meaning::ignored);
  EXPECT_EQ(without_node_zero.note(end_job_by(201)), Meaning::noted);
  for (NodeCommands& one : {std::ref(commands), std::ref(without_node_zero)}) {
    Escalation once = one.escalation();
    EXPECT_EQ(once.begin(begin + 1s), SIGTERM);
    EXPECT_EQ(once.note_signal(SIGTERM, begin, begin + 1s), Action::wait)
        << "the same, still queued";
    EXPECT_EQ(once.note_signal(SIGTERM, begin + 2s, begin + 2s), Action::kill);
    EXPECT_FALSE(one.note_stop_request(SIGTERM, begin + 2s));
    EXPECT_EQ(one.escalation().begin(begin + 3s), SIGKILL) << "both had come before";
  }
}

TEST(NodeCommands, TheSignalAndTheGraceAreThoseOfTheCommand) {
  const NodeCommands::Time begin{100s};
  NodeCommands commands = commands_at(At::running);
  EndRound command = end_round_of(3, SIGINT);
  command.grace = 7s;
  commands.note(command);
  Escalation escalation = commands.escalation();
  EXPECT_EQ(escalation.begin(begin), SIGINT);
  EXPECT_EQ(escalation.deadline(), begin + 7s);
  commands.note(end_round_of(3, SIGKILL));
  EXPECT_EQ(commands.escalation().begin(begin), SIGKILL) << "should the agent come to it only now";
}

/// The agent's loop, one step at a time.
struct FakeAgent {
  NodeCommands commands{kWorkers, 5s};
  bool is_over = false;
  int alive = 0;
  std::vector<int> rounds;

  void step() {
    if (is_over) return;
    if (commands.state() == CommandState::waiting && commands.end_job()) {
      is_over = true;
    } else if (commands.state() == CommandState::waiting && commands.has_next()) {
      rounds.push_back(commands.begin_round().round);
      alive = kWorkers;
    } else if (commands.state() == CommandState::running && commands.end_command()) {
      commands.begin_ending();
    } else if (commands.state() == CommandState::ending) {
      alive = 0;  // the grace passes, then SIGKILL
      commands.note_ended();
    }
  }
};

TEST(NodeCommands, AfterAnyCommandsAtAnyTimeAnEndJobEndsAll) {
  std::mt19937 random(1);
  const auto pick = [&](int count) {
    return std::uniform_int_distribution<int>(0, count - 1)(random);
  };
  for (int job = 0; job < 20000; ++job) {
    FakeAgent agent;
    for (int i = pick(30); i > 0; --i) {
      const int round = pick(5);
      const std::vector<NodeCommand> given{start_of(round),
                                           end_round_of(round),
                                           end_round_of(round, SIGKILL),
                                           AnnounceStop{round, ""},
                                           Heartbeat{round, {}},
                                           end_job_by(round)};
      // An EndJob is the last thing of most jobs.
      const int kind = pick(10) == 0 ? 5 : pick(5);
      const Meaning meaning = agent.commands.note(given[static_cast<std::size_t>(kind)]);
      if (meaning == Meaning::announce) {
        EXPECT_EQ(agent.commands.state(), CommandState::running);
      }
      for (int steps = pick(3); steps > 0; --steps)
        agent.step();
    }
    agent.commands.note(end_job_by(9));
    for (int steps = 0; steps < 4; ++steps)
      agent.step();
    ASSERT_TRUE(agent.is_over) << "job " << job;
    ASSERT_EQ(agent.alive, 0) << "job " << job;
    ASSERT_TRUE(std::is_sorted(agent.rounds.begin(), agent.rounds.end(), std::less_equal<>()));
  }
}

}  // namespace
}  // namespace ddp::launcher
