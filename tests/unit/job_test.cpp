#include "launcher/plan/round/job.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "common/exit_code.h"
#include "launcher/plan/round/node_silence.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using JobState = Job::State;
using JobAction = Job::Action;

const Job::Time kJobBegin{1000s};

Hello hello_of(int node_rank, int min_nodes, int max_nodes) {
  Hello hello;
  hello.node_rank = node_rank;
  hello.min_nodes = min_nodes;
  hello.max_nodes = max_nodes;
  hello.host = std::string(1, static_cast<char>('a' + node_rank));
  return hello;
}

Job::Config config_of(int max_restarts) {
  Job::Config config;
  config.round.grace = 30s;
  config.restarts.max_restarts = max_restarts;
  config.join_timeout = 900s;
  config.last_call = 30s;
  return config;
}

/// A job of nodes with one worker each, told of event after event.
struct JobDriver {
  explicit JobDriver(const Job::Config& config, int least = 1, int most = 1)
      : min_nodes(least),
        max_nodes(most),
        table(hello_of(0, least, most), config.replace_timeout.has_value()),
        job(config, table, kJobBegin) {}

  int join(int node_rank) { return table.add(hello_of(node_rank, min_nodes, max_nodes)); }
  JobAction advance() { return job.advance(now); }
  JobAction at(std::chrono::milliseconds time) {
    now = kJobBegin + time;
    return job.advance(now);
  }
  Round& begin() {
    EXPECT_EQ(advance(), JobAction::begin_round);
    std::vector<Round::Node> nodes;
    for (std::size_t i = 0; i < table.assign_node_ranks().size(); ++i)
      nodes.push_back(Round::Node{std::string(1, 'a'), i == 0 ? "" : "10.0.0.1", 1, false});
    return job.begin_round(nodes, now);
  }
  void end(int node_rank, int code) {
    GroupEnded ended;
    ended.round = job.round()->number();
    WorkerReport report;
    report.ending.rank = node_rank;
    report.ending.status = ExitStatus{code, 0, false};
    report.ending.at = now - job.round()->began_at();
    report.pid = 100 + node_rank;
    ended.workers = {report};
    job.round()->note_worker_ended(node_rank, {ended.round, report}, now);
    job.round()->note_group_ended(node_rank, ended, now);
  }
  /// After which there is a pause.
  void fail_two_short_rounds() {
    for (int i = 0; i < 2; ++i) {
      begin();
      end(0, 7);
      advance();
    }
  }
  std::string line() {
    const std::vector<Job::Line> lines = job.take_lines();
    EXPECT_THAT(lines, SizeIs(1));
    return lines.empty() ? "" : lines.front().text;
  }

  int min_nodes;
  int max_nodes;
  NodeTable table;
  Job job;
  Job::Time now = kJobBegin;
};

// --- gathering

TEST(Job, JobOfOneNodeBeginsAtOnceAndEndsWithItsRound) {
  JobDriver driver(config_of(0));
  EXPECT_EQ(driver.job.round(), nullptr);
  driver.begin();
  EXPECT_EQ(driver.job.state(), JobState::running);
  EXPECT_EQ(driver.advance(), JobAction::wait);
  EXPECT_EQ(driver.job.deadline(), std::nullopt);
  driver.end(0, 0);
  EXPECT_EQ(driver.advance(), JobAction::end);
  driver.job.note_end(kJobBegin + 9s);
  EXPECT_EQ(driver.job.verdict().exit_code, 0);
  EXPECT_EQ(driver.job.verdict().rounds, 1);
  EXPECT_EQ(driver.job.verdict().duration, 9s);
  EXPECT_THAT(driver.job.take_lines(), IsEmpty());
}

TEST(Job, WaitsForItsNodesAndSaysWhoIsMissing) {
  JobDriver driver(config_of(0), 2, 2);
  EXPECT_EQ(driver.advance(), JobAction::wait);
  EXPECT_EQ(driver.job.deadline(), kJobBegin + NodeWait::kReminder);
  EXPECT_EQ(driver.at(10s), JobAction::wait);
  EXPECT_THAT(driver.line(), HasSubstr("missing: node 1"));
  driver.join(1);
  driver.begin();
  EXPECT_EQ(driver.job.verdict().world_size, 2);
}

TEST(Job, EndsWhenItsNodesDoNotCome) {
  JobDriver driver(config_of(0), 2, 2);
  EXPECT_EQ(driver.at(900s), JobAction::end);
  EXPECT_EQ(driver.job.state(), JobState::over);
  EXPECT_EQ(driver.job.verdict().exit_code, exit_code::kRendezvous);
}

TEST(Job, AStopRequestBeforeTheFirstRoundEndsIt) {
  JobDriver driver(config_of(0), 2, 2);
  driver.job.note_stop_request(0, "", SIGTERM, kJobBegin);
  EXPECT_EQ(driver.advance(), JobAction::end);
  EXPECT_EQ(driver.job.verdict().exit_code, 143);
  EXPECT_EQ(driver.job.verdict().rounds, 0);
}

TEST(Job, SignalsThatNoAgentSendsAreNoStopRequests) {
  JobDriver driver(config_of(0), 2, 2);
  driver.job.note_stop_request(1, "", SIGKILL, kJobBegin);
  driver.job.note_stop_request(1, "", SIGSTOP, kJobBegin);
  EXPECT_EQ(driver.advance(), JobAction::wait);
}

TEST(Job, ANodeThatCannotExecuteTheProgramEndsItBeforeTheFirstRoundOnly) {
  Hello unable = hello_of(1, 2, 2);
  unable.problem_code = 127;
  const Refusal refusal{127, "node 1 has no such program"};
  JobDriver driver(config_of(1), 2, 2);
  driver.job.note_answered(unable, std::nullopt);
  EXPECT_EQ(driver.advance(), JobAction::wait);
  driver.job.note_answered(unable, refusal);
  EXPECT_EQ(driver.advance(), JobAction::end);
  EXPECT_EQ(driver.job.verdict().exit_code, 127);

  JobDriver later(config_of(1), 1, 2);
  later.join(1);
  later.begin();
  later.job.note_answered(unable, refusal);
  later.end(0, 7);
  later.end(1, 7);
  later.advance();
  EXPECT_EQ(later.advance(), JobAction::begin_round);
}

TEST(Job, AnotherNodeZeroEndsIt) {
  JobDriver driver(config_of(0), 2, 2);
  driver.job.note_other_node_zero(Refusal{203, "not the same job"});
  EXPECT_EQ(driver.advance(), JobAction::end);
  EXPECT_EQ(driver.job.verdict().exit_code, 203);
}

// --- refusing

Job::Config with_problem() {
  Job::Config config = config_of(0);
  config.own_problem = Refusal{126, "train is not executable"};
  return config;
}

TEST(Job, JobThatNodeZeroCannotStartEndsOnceAllNodesWereRefused) {
  const Refusal refusal{126, "train is not executable"};
  JobDriver driver(with_problem(), 3, 3);
  EXPECT_EQ(driver.advance(), JobAction::wait);
  EXPECT_EQ(driver.job.deadline(), kJobBegin + Job::kRefuseFor);
  driver.job.note_answered(hello_of(1, 3, 3), refusal);
  Hello question = hello_of(2, 3, 3);
  question.is_question = true;
  driver.job.note_answered(question, refusal);                                    // it comes again
  driver.job.note_answered(hello_of(2, 3, 3), Refusal{203, "not the same job"});  // of another job
  EXPECT_EQ(driver.advance(), JobAction::wait);
  driver.job.note_answered(hello_of(2, 3, 3), refusal);
  EXPECT_EQ(driver.advance(), JobAction::end);
  EXPECT_EQ(driver.job.verdict().exit_code, 126);
}

TEST(Job, JobThatNodeZeroCannotStartEndsAfterTwoSeconds) {
  JobDriver driver(with_problem(), 3, 3);
  EXPECT_EQ(driver.at(1999ms), JobAction::wait);
  EXPECT_EQ(driver.at(2s), JobAction::end);
  EXPECT_EQ(driver.job.verdict().exit_code, 126);
  JobDriver stopped(with_problem(), 3, 3);
  stopped.job.note_stop_request(0, "", SIGINT, kJobBegin);
  EXPECT_EQ(stopped.advance(), JobAction::end);
  EXPECT_EQ(stopped.job.verdict().exit_code, 130);
}

// --- running, pausing

TEST(Job, AFailedRoundIsFollowedByTheNextWhileThereAreRestarts) {
  JobDriver driver(config_of(1));
  driver.begin();
  driver.end(0, 7);
  EXPECT_EQ(driver.advance(), JobAction::begin_round);  // the first restart does not pause
  EXPECT_THAT(driver.line(), HasSubstr("exit code 7"));
  EXPECT_EQ(driver.job.next_round(), 1);
  EXPECT_EQ(driver.begin().number(), 1);
  driver.end(0, 9);
  EXPECT_EQ(driver.advance(), JobAction::end);
  EXPECT_EQ(driver.line(), "no further round: the one restart is used up.");
  EXPECT_EQ(driver.job.verdict().exit_code, 9);
  EXPECT_THAT(driver.job.verdict().earlier_rounds, SizeIs(1));
}

TEST(Job, PausesBeforeARoundAfterShortOnes) {
  JobDriver driver(config_of(9));
  driver.fail_two_short_rounds();
  EXPECT_EQ(driver.job.state(), JobState::pausing);
  EXPECT_EQ(driver.job.deadline(), kJobBegin + 1s);
  EXPECT_EQ(driver.at(999ms), JobAction::wait);
  EXPECT_EQ(driver.at(1s), JobAction::begin_round);
}

TEST(Job, AStopRequestCutsAPauseShort) {
  JobDriver driver(config_of(9));
  driver.fail_two_short_rounds();
  driver.job.note_stop_request(0, "", SIGINT, kJobBegin);
  EXPECT_EQ(driver.advance(), JobAction::end);
  EXPECT_EQ(driver.job.verdict().exit_code, 130);
  EXPECT_THAT(driver.job.verdict().earlier_rounds, SizeIs(2));
}

TEST(Job, NoRoundBeginsBeforeWorkersOfALostNodeAreSurelyDead) {
  Job::Config config = config_of(3);
  config.round.lost_nodes_are_free = config.restarts.lost_nodes_are_free = true;
  JobDriver driver(config, 1, 2);
  const int id = driver.join(1);
  driver.begin();
  driver.now = kJobBegin + 20s;
  driver.table.remove(id);
  driver.job.note_node_lost(1, "silent for 5.1 s", kJobBegin + 15s, driver.now);
  driver.end(0, 143);
  EXPECT_EQ(driver.advance(), JobAction::wait);
  EXPECT_THAT(driver.line(), HasSubstr("when the lost node's workers are surely dead"));
  EXPECT_EQ(driver.job.deadline(), kJobBegin + 15s + kReplaceAfter);
  EXPECT_EQ(driver.at(22s), JobAction::begin_round);
}

TEST(Job, ALostNodeMayBeReplacedUntilTheLimit) {
  Job::Config config = config_of(3);
  config.replace_timeout = 60s;
  JobDriver driver(config, 2, 2);
  const int id = driver.join(1);
  driver.begin();
  driver.table.remove(id);
  driver.job.note_node_lost(1, "silent for 5.1 s", kJobBegin, kJobBegin);
  driver.end(0, 143);
  EXPECT_EQ(driver.advance(), JobAction::wait);
  EXPECT_THAT(driver.line(), HasSubstr("when another node has come, within 1min"));
  EXPECT_EQ(driver.at(59s), JobAction::wait);
  EXPECT_EQ(driver.at(60s), JobAction::end);
  EXPECT_EQ(driver.job.verdict().exit_code, exit_code::kNodeLost);
  EXPECT_EQ(driver.job.verdict().why_last_round, "no other node came within 1min");
}

TEST(Job, NoDeadlineIsLeftBehindByASleepOfTheMachine) {
  JobDriver driver(config_of(0), 2, 2);
  EXPECT_EQ(driver.at(95s), JobAction::wait);
  EXPECT_EQ(driver.job.take_lines().size(), 1U) << "who is missing is said once";
  EXPECT_EQ(driver.job.deadline(), kJobBegin + 105s);
  EXPECT_EQ(driver.at(95s), JobAction::wait);
  EXPECT_THAT(driver.job.take_lines(), IsEmpty());

  JobDriver paused(config_of(9));
  paused.fail_two_short_rounds();
  EXPECT_EQ(paused.at(95s), JobAction::begin_round);
}

TEST(Job, ARoundWaitsForReportsNoLongerThanItMay) {
  JobDriver driver(config_of(0), 2, 2);
  const int id = driver.join(1);
  driver.begin();
  driver.end(0, 7);
  EXPECT_EQ(driver.advance(), JobAction::wait);
  EXPECT_EQ(driver.job.deadline(), kJobBegin + 30s + Round::kGroupEndWait);
  driver.now = kJobBegin + 44s;
  driver.job.round()->note_time(driver.now);
  EXPECT_EQ(driver.advance(), JobAction::wait);
  EXPECT_EQ(driver.job.deadline(), std::nullopt) << "the node is to be given up now, by an action";
  driver.table.remove(id);
  driver.job.note_node_lost(1, "did not end its workers in time", driver.now, driver.now);
  EXPECT_EQ(driver.advance(), JobAction::end);
}

TEST(Job, AFailureOfTheLauncherEndsItWhereverItIs) {
  JobDriver driver(config_of(3));
  EXPECT_EQ(driver.advance(), JobAction::begin_round);
  driver.job.note_launcher_failed("port 29500 is taken", exit_code::kRendezvous);
  EXPECT_EQ(driver.advance(), JobAction::end);
  EXPECT_EQ(driver.job.verdict().exit_code, exit_code::kRendezvous);
  EXPECT_EQ(driver.job.verdict().rounds, 0);
}

// --- Any order.

/// Whatever comes in whatever order: the job comes to its end, no round begins after the user's
/// stop, rounds count up, and what is waited for lies ahead.
TEST(Job, ComesToItsEndInAnyOrder) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto pick = [&random](int from, int to) {
      return std::uniform_int_distribution<int>(from, to)(random);
    };
    Job::Config config = config_of(pick(0, 3));
    if (pick(0, 1) == 1) config.replace_timeout = 60s;
    config.restarts.lost_nodes_are_free = pick(0, 1) == 1;
    if (pick(0, 9) == 0) config.own_problem = Refusal{127, "no such program"};
    const int most = pick(1, 3);
    JobDriver driver(config, pick(1, most), most);
    std::vector<int> ids{0};     // by node rank, of the newest round
    std::vector<int> joined{0};  // by order of coming
    bool is_stopped = false;
    int begun = 0;
    JobAction action = JobAction::wait;
    for (int turn = 0; turn < 2000 && action != JobAction::end; ++turn) {
      action = driver.advance();
      (void)driver.job.take_lines();
      if (action == JobAction::begin_round) {
        EXPECT_FALSE(is_stopped);
        EXPECT_EQ(driver.job.next_round(), begun);
        ids = driver.table.assign_node_ranks();
        std::vector<Round::Node> nodes;
        for (std::size_t i = 0; i < ids.size(); ++i)
          nodes.push_back(Round::Node{"a", i == 0 ? "" : "10.0.0.1", 1, false});
        driver.job.begin_round(nodes, driver.now);
        ++begun;
        continue;
      }
      if (action == JobAction::end) break;
      const bool runs = driver.job.state() == JobState::running;
      if (const auto deadline = driver.job.deadline()) {
        EXPECT_GT(*deadline, driver.now) << "it is waited for again and again";
      } else {
        EXPECT_TRUE(runs) << "nobody else is sure to do something";
      }
      const int what = pick(0, 99);
      const int node_rank = pick(0, static_cast<int>(ids.size()) - 1);
      if (what < 2) {
        driver.job.note_stop_request(0, "", SIGTERM, driver.now);
        is_stopped = true;
      } else if (what < 10 && driver.table.present() < most) {
        const int node = driver.table.present();
        if (!driver.table.why_not(hello_of(node, driver.min_nodes, most)))
          joined.push_back(driver.join(node));
      } else if (what < 14 && runs && node_rank > 0) {
        const auto found = std::ranges::find(joined, ids[static_cast<std::size_t>(node_rank)]);
        if (found == joined.end()) continue;  // gone already
        driver.table.remove(*found);
        joined.erase(found);
        driver.job.note_node_lost(node_rank, "silent", driver.now - 5s, driver.now);
      } else if (what < 40 && runs) {
        driver.end(node_rank, pick(0, 1) * 7);
      } else {
        const Job::Time next = driver.job.deadline().value_or(driver.now + 1s);
        driver.now =
            std::max(driver.now + 1ms, std::min(next, driver.now + std::chrono::seconds(20)));
        if (runs) driver.job.round()->note_time(driver.now);
      }
    }
    EXPECT_EQ(action, JobAction::end);
    EXPECT_EQ(driver.job.verdict().rounds, begun);
    driver.advance();
    EXPECT_EQ(driver.job.state(), JobState::over);
  }
}

}  // namespace
}  // namespace ddp::launcher
