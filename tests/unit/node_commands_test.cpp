#include "launcher/plan/node_commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <random>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using Meaning = NodeCommands::Meaning;
using State = NodeCommands::State;

constexpr int kWorkers = 2;

StartRound start_of(int round) {
  return StartRound{round, 1, {1, kWorkers}, {0, 0}, 29500, ""};
}
EndRound stop_of(int round, int signal = SIGTERM) {
  return EndRound{round, EndReason::worker_failed, "why", signal, 30s, false};
}
EndJob end_by(int code) {
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
  stop_kept,
  stopping,
  end_kept
};

NodeCommands book_at(At at) {
  NodeCommands book(kWorkers, 5s);
  if (at == At::waiting) return book;
  if (at == At::end_kept) book.take(end_by(7));
  if (at == At::end_kept) return book;
  EXPECT_EQ(book.take(start_of(3)), Meaning::noted);
  if (at == At::start_kept) return book;
  EXPECT_EQ(book.begin_round(), start_of(3));
  if (at == At::running) return book;
  EXPECT_EQ(book.take(stop_of(3)), Meaning::noted);
  if (at == At::stop_kept) return book;
  book.begin_ending();
  if (at == At::stopping) return book;
  book.note_ended();
  return book;
}

struct Row {
  At at;
  Meaning newer_start;
  Meaning same_start;
  Meaning announce;
  Meaning stop;
  Meaning kill;
  Meaning end;
};

// Row by row, the table of node_commands.h.
TEST(NodeCommands, EveryOrderHasItsMeaningInEveryState) {
  constexpr Meaning kKept = Meaning::noted;
  constexpr Meaning kIgnored = Meaning::ignored;
  constexpr Meaning kNonsense = Meaning::nonsense;
  constexpr Meaning kKill = Meaning::kill;
  for (const Row& row : {
           Row{At::waiting, kKept, kKept, kIgnored, kIgnored, kIgnored, kKept},
           Row{At::waiting_after_a_round, kKept, kNonsense, kIgnored, kIgnored, kIgnored, kKept},
           Row{At::start_kept, kNonsense, kNonsense, kIgnored, kKept, kKept, kKept},
           Row{At::running, kNonsense, kNonsense, Meaning::announce, kKept, kKept, kKept},
           Row{At::stop_kept, kNonsense, kNonsense, kIgnored, kIgnored, kKill, kKept},
           Row{At::stopping, kNonsense, kNonsense, kIgnored, kIgnored, kKill, kKept},
           Row{At::end_kept, kIgnored, kIgnored, kIgnored, kIgnored, kIgnored, kIgnored},
       }) {
    SCOPED_TRACE("state " + std::to_string(static_cast<int>(row.at)));
    EXPECT_EQ(book_at(row.at).take(start_of(4)), row.newer_start);
    EXPECT_EQ(book_at(row.at).take(start_of(3)), row.same_start);
    EXPECT_EQ(book_at(row.at).take(AnnounceStop{3, ""}), row.announce);
    EXPECT_EQ(book_at(row.at).take(stop_of(3)), row.stop);
    EXPECT_EQ(book_at(row.at).take(stop_of(3, SIGKILL)), row.kill);
    EXPECT_EQ(book_at(row.at).take(end_by(9)), row.end);
    // Of other rounds, and heartbeats.
    for (const int round : {2, 4}) {
      EXPECT_EQ(book_at(row.at).take(stop_of(round)), kIgnored);
      EXPECT_EQ(book_at(row.at).take(stop_of(round, SIGKILL)), kIgnored);
      EXPECT_EQ(book_at(row.at).take(AnnounceStop{round, ""}), kIgnored);
    }
    EXPECT_EQ(book_at(row.at).take(Heartbeat{5, {}}), kIgnored);
  }
}

TEST(NodeCommands, AnOlderStartIsNonsense) {
  EXPECT_EQ(book_at(At::waiting_after_a_round).take(start_of(2)), Meaning::nonsense);
  EXPECT_EQ(book_at(At::running).take(start_of(2)), Meaning::nonsense);
}

TEST(NodeCommands, AStartForAnotherNumberOfWorkersIsNonsense) {
  NodeCommands book(kWorkers, 5s);
  StartRound start = start_of(0);
  start.workers_of_node = {kWorkers, 3};
  EXPECT_EQ(book.take(start), Meaning::nonsense);
  start.node_rank = 7;
  EXPECT_EQ(book.take(start), Meaning::nonsense);
  EXPECT_FALSE(book.has_next());
}

TEST(NodeCommands, AVerdictInARoundEndsTheWorkersFirst) {
  NodeCommands book = book_at(At::running);
  book.take(end_by(9));
  ASSERT_TRUE(book.end_command());
  EXPECT_EQ(book.end_command()->round, 3);
  EXPECT_EQ(book.end_command()->signal, SIGTERM);
  EXPECT_EQ(book.end_command()->grace, 5s);
  EXPECT_EQ(book.take(stop_of(3, SIGKILL)), Meaning::kill);
  book.begin_ending();
  book.note_ended();
  EXPECT_TRUE(book.has_next());
  EXPECT_EQ(book.end_job()->exit_code, 9);
}

TEST(NodeCommands, AVerdictTakesAKeptStartBack) {
  NodeCommands book = book_at(At::start_kept);
  book.take(end_by(9));
  EXPECT_TRUE(book.end_job());
  EXPECT_EQ(book.take(stop_of(3)), Meaning::ignored);
}

TEST(NodeCommands, AStopBeforeItsRoundHasBegunIsNotLost) {
  NodeCommands book = book_at(At::start_kept);
  book.take(stop_of(3));
  book.begin_round();
  ASSERT_TRUE(book.end_command());
  EXPECT_EQ(book.take(stop_of(3, SIGKILL)), Meaning::kill);
  EXPECT_EQ(book.end_command()->signal, SIGKILL);
}

TEST(NodeCommands, WhoPressesTwiceAndHearsNothingMayLeave) {
  const NodeCommands::Time begin{100s};
  NodeCommands book = book_at(At::running);
  book.note_stop_request(SIGTERM, begin);
  EXPECT_FALSE(book.is_stop_unanswered(begin + 1h)) << "once is a wish, not a command";
  book.note_stop_request(SIGTERM, begin + 50ms);
  EXPECT_FALSE(book.is_stop_unanswered(begin + 1h)) << "a wrapper delivers it twice";
  book.note_stop_request(SIGTERM, begin + 200ms);
  EXPECT_FALSE(book.is_stop_unanswered(begin + 1100ms)) << "node 0 has a second to answer";
  EXPECT_TRUE(book.is_stop_unanswered(begin + 1200ms));
  NodeCommands answered = book;
  answered.take(stop_of(3));
  EXPECT_FALSE(answered.is_stop_unanswered(begin + 1h));
  answered.begin_ending();
  answered.note_ended();
  EXPECT_FALSE(answered.is_stop_unanswered(begin + 1h)) << "that was answered";
  answered.note_stop_request(SIGTERM, begin + 2h);
  answered.note_stop_request(SIGTERM, begin + 3h);
  EXPECT_FALSE(answered.is_stop_unanswered(begin + 3h));
  EXPECT_TRUE(answered.is_stop_unanswered(begin + 3h + 1s));
}

TEST(NodeCommands, WhoPressesWhileARoundEndsIsHeard) {
  const NodeCommands::Time begin{100s};
  NodeCommands book = book_at(At::running);
  book.take(stop_of(3));
  book.begin_ending();
  book.note_stop_request(SIGTERM, begin);
  book.note_stop_request(SIGTERM, begin + 500ms);
  book.note_ended();
  EXPECT_FALSE(book.is_stop_unanswered(begin + 1h)) << "other nodes may still be ending theirs";
}

TEST(NodeCommands, AStopRequestThatLedToTheEndIsTheFirstOfTwo) {
  using Step = Escalation::Step;
  const NodeCommands::Time begin{100s};
  const auto press_again = [begin](const NodeCommands& book) {
    Escalation escalation = book.escalation();
    escalation.begin(begin + 1s);
    return escalation.note_signal(SIGTERM, begin + 2s, begin + 2s);
  };
  NodeCommands book = book_at(At::running);
  EndRound command = stop_of(3);
  command.reason = EndReason::user;
  NodeCommands pressed = book;
  pressed.note_stop_request(SIGINT, begin);
  EXPECT_EQ(pressed.requested_signal(), SIGINT);
  NodeCommands failed = pressed;
  pressed.take(command);
  EXPECT_EQ(press_again(pressed), Step::kill);

  NodeCommands elsewhere = book;  // another node's user has asked
  elsewhere.take(command);
  EXPECT_EQ(press_again(elsewhere), Step::wait);

  NodeCommands announced = book;  // SIGTERM comes some time later: that is the first
  announced.note_stop_request(SIGUSR1, begin);
  EXPECT_EQ(announced.requested_signal(), 0);
  announced.take(command);
  EXPECT_EQ(press_again(announced), Step::wait);

  command.reason = EndReason::worker_failed;  // it has not led to this end
  failed.take(command);
  EXPECT_EQ(press_again(failed), Step::wait);
}

TEST(NodeCommands, TheSignalAndTheGraceAreThoseOfTheCommand) {
  const NodeCommands::Time begin{100s};
  NodeCommands book = book_at(At::running);
  EndRound command = stop_of(3, SIGINT);
  command.grace = 7s;
  book.take(command);
  Escalation escalation = book.escalation();
  EXPECT_EQ(escalation.begin(begin), SIGINT);
  EXPECT_EQ(escalation.deadline(), begin + 7s);
  book.take(stop_of(3, SIGKILL));
  EXPECT_EQ(book.escalation().begin(begin), SIGKILL) << "should the agent come to it only now";
}

/// The agent's loop, one step at a time.
struct PlayedAgent {
  NodeCommands book{kWorkers, 5s};
  bool is_over = false;
  int alive = 0;
  std::vector<int> rounds;

  void step() {
    if (is_over) return;
    if (book.state() == State::waiting && book.end_job()) {
      is_over = true;
    } else if (book.state() == State::waiting && book.has_next()) {
      rounds.push_back(book.begin_round().round);
      alive = kWorkers;
    } else if (book.state() == State::running && book.end_command()) {
      book.begin_ending();
    } else if (book.state() == State::ending) {
      alive = 0;  // the grace passes, then SIGKILL
      book.note_ended();
    }
  }
};

TEST(NodeCommands, AfterAnyOrdersAtAnyTimeAVerdictEndsTheStory) {
  std::mt19937 random(1);
  const auto pick = [&](int count) {
    return std::uniform_int_distribution<int>(0, count - 1)(random);
  };
  for (int job = 0; job < 20000; ++job) {
    PlayedAgent agent;
    for (int i = pick(30); i > 0; --i) {
      const int round = pick(5);
      const std::vector<NodeCommand> commands{start_of(round),
                                              stop_of(round),
                                              stop_of(round, SIGKILL),
                                              AnnounceStop{round, ""},
                                              Heartbeat{round, {}},
                                              end_by(round)};
      // A verdict is the last thing of most jobs.
      const int kind = pick(10) == 0 ? 5 : pick(5);
      const Meaning meaning = agent.book.take(commands[static_cast<std::size_t>(kind)]);
      if (meaning == Meaning::announce) {
        EXPECT_EQ(agent.book.state(), State::running);
      }
      for (int steps = pick(3); steps > 0; --steps)
        agent.step();
    }
    agent.book.take(end_by(9));
    for (int steps = 0; steps < 4; ++steps)
      agent.step();
    ASSERT_TRUE(agent.is_over) << "job " << job;
    ASSERT_EQ(agent.alive, 0) << "job " << job;
    ASSERT_TRUE(std::is_sorted(agent.rounds.begin(), agent.rounds.end(), std::less_equal<>()));
  }
}

}  // namespace
}  // namespace ddp::launcher
