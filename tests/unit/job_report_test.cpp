// The report of a verdict, for people and for programs.
#include "launcher/plan/round/job_report.h"

#include <gmock/gmock.h>

#include <boost/json/parse.hpp>
#include <csignal>

namespace ddp::launcher {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

WorkerReport worker(int rank, ExitStatus status) {
  WorkerReport report;
  report.ending.rank = rank;
  report.ending.status = status;
  report.local_rank = rank;
  report.pid = 100 + rank;
  report.host = "node-a";
  return report;
}

WorkerReport stopped_worker(int rank) {
  WorkerReport report = worker(rank, ExitStatus{0, SIGTERM, false});
  report.ending.stop_sent = true;
  return report;
}

Verdict failed(std::vector<WorkerReport> workers, std::size_t root) {
  Verdict verdict;
  verdict.workers = std::move(workers);
  Failed outcome;
  outcome.root_cause = root;
  for (std::size_t i = 0; i < verdict.workers.size(); ++i) {
    if (i != root) outcome.victims.push_back(i);
  }
  verdict.exit_code = verdict.workers[root].ending.status.exit_code();
  verdict.outcome = outcome;
  return verdict;
}

JobSpec some_job() {
  JobSpec spec;
  spec.entry = "train.py";
  spec.nproc = 2;
  return spec;
}

std::string text_of(const Verdict& verdict) {
  return format_report(verdict, some_job());
}

json::object members_of(const Verdict& verdict) {
  return json::parse("{" + to_json_members(verdict, some_job(), "node-a", 100) + "}").as_object();
}

TEST(JobReport, QuotedTextIsCleanedForATerminal) {
  EXPECT_EQ(clean_report("a\x1b[2Jb\x07\nc\n"), "ab?\nc\n");
}

TEST(JobReport, SaysNothingOfAJobThatEndedWell) {
  Verdict verdict;
  verdict.workers = {worker(0, ExitStatus{})};
  EXPECT_EQ(text_of(verdict), "");
  EXPECT_EQ(members_of(verdict).at("decided_by"), "workers");
  EXPECT_FALSE(members_of(verdict).contains("root_cause"));
}

TEST(JobReport, PutsTheRootCauseBeforeItsVictims) {
  const std::string text =
      text_of(failed({stopped_worker(0), worker(1, ExitStatus{0, SIGSEGV, true})}, 1));
  EXPECT_THAT(text,
              AllOf(HasSubstr("train.py FAILED\n"),
                    HasSubstr("  host      : node-a\n"),
                    HasSubstr("  rank      : 1 (local_rank: 1)\n"),
                    HasSubstr("  exitcode  : -11 (pid: 101) (SIGSEGV)\n"),
                    HasSubstr("signal SIGSEGV (11) received by pid 101, core dumped\n")));
  const std::size_t victims = text.find("Failures that followed:\n");
  ASSERT_NE(victims, std::string::npos);
  EXPECT_LT(text.find("Root Cause"), victims);
  EXPECT_THAT(text.substr(victims), HasSubstr("  rank 0 (pid 100): stopped by the launcher\n"));
}

TEST(JobReport, ARankThatLeftTheDebuggerIsNotBlamed) {
  WorkerReport root = worker(0, ExitStatus{.code = 1});
  root.last_lines = {"    if self.quitting: raise BdbQuit", "bdb.BdbQuit"};
  EXPECT_EQ(text_of(failed({root, stopped_worker(1)}, 0)),
            "ddp-launch: rank 0 (pid 100) left the debugger; exit code 1.\n");
  const Verdict verdict = failed({root}, 0);
  EXPECT_EQ(members_of(verdict).at("root_cause").at("what"), "left the debugger");
  root.last_lines = {"the last line is bdb.BdbQuit"};
  EXPECT_THAT(text_of(failed({root}, 0)), HasSubstr("FAILED"));
}

TEST(JobReport, NamesTheNodesOfAJobOfSeveral) {
  WorkerReport root = worker(1, ExitStatus{7, 0, false});
  root.node_rank = 1;
  root.host = "node-b";
  Verdict verdict = failed({stopped_worker(0), root}, 1);
  verdict.lived = 1500ms;
  JobSpec spec = some_job();
  spec.min_nodes = spec.max_nodes = 2;
  EXPECT_THAT(format_report(verdict, spec),
              AllOf(HasSubstr("  host      : node-b\n  node      : 1\n"),
                    HasSubstr("  rank 0 (node 0, node-a, pid 100): stopped by the launcher\n")));
  EXPECT_EQ(summarize_round(verdict, 0),
            "round 0 failed after 1.5 s: rank 1 (node 1, node-b, pid 101), exit code 7");
  EXPECT_EQ(summarize_round(failed({root}, 0), 0).find("node-a"), std::string::npos);
}

TEST(JobReport, CountsTheVictimsOfALargeJob) {
  std::vector<WorkerReport> workers{worker(0, ExitStatus{7, 0, false})};
  for (int rank = 1; rank < 10000; ++rank)
    workers.push_back(stopped_worker(rank));
  workers[9000] = worker(9000, ExitStatus{97, 0, false});
  const std::string text = text_of(failed(workers, 0));
  EXPECT_THAT(text, HasSubstr("  rank 100 (pid 200): stopped by the launcher\n"));
  EXPECT_THAT(text, Not(HasSubstr("rank 101 ")));
  EXPECT_THAT(
      text,
      HasSubstr(
          "  and 9899 more: 1 exit code 97 (lost a peer), 9898 stopped by the launcher\n===="));
  EXPECT_LT(text.size(), 8192U);
}

TEST(JobReport, QuotesErrorFileAndLastLines) {
  WorkerReport root = worker(0, ExitStatus{1, 0, false});
  root.error_file = "/tmp/e.json";
  root.error_text =
      R"({"message":{"message":"ValueError: x","extraInfo":{"py_callstack":"a\nb"}}})";
  root.last_lines = {"one", "two"};
  EXPECT_THAT(text_of(failed({root}, 0)),
              AllOf(HasSubstr("  error_file: /tmp/e.json\n"),
                    HasSubstr("  traceback : ValueError: x\n    a\n    b\n"),
                    HasSubstr("  last lines of its stderr:\n    one\n    two\n"),
                    Not(HasSubstr("Failures that followed"))));
  EXPECT_EQ(members_of(failed({root}, 0)).at("root_cause").at("message"), "ValueError: x");
}

TEST(JobReport, AnExceptionOfSeveralLinesIsThereOnceAndIndented) {
  WorkerReport root = worker(0, ExitStatus{1, 0, false});
  root.error_text =
      R"({"message":{"message":"E: x\ny","extraInfo":{"py_callstack":"Traceback (most recent call last):\n  File a\nE: x\ny\n"}}})";
  root.last_lines = {"before", "Traceback (most recent call last):", "  File a", "E: x", "y"};
  EXPECT_THAT(text_of(failed({root}, 0)),
              HasSubstr("  traceback : Traceback (most recent call last):\n"
                        "      File a\n    E: x\n    y\n"
                        "  last lines of its stderr:\n    before\n  teardown"));
}

TEST(JobReport, ShowsWhatTheNodeSaysAboutTheDeath) {
  WorkerReport root = worker(0, ExitStatus{0, SIGKILL, false});
  root.death_facts = {"killed for lack of memory", "core file: /c"};
  EXPECT_THAT(text_of(failed({root}, 0)),
              HasSubstr("  found     : killed for lack of memory\n  found     : core file: /c\n"));
  EXPECT_EQ(members_of(failed({root}, 0)).at("root_cause").at("findings").at(1), "core file: /c");
}

TEST(JobReport, ShowsProgressOnlyWithAPage) {
  WorkerReport root = worker(0, ExitStatus{1, 0, false});
  EXPECT_THAT(text_of(failed({root}, 0)), Not(HasSubstr("progress")));
  root.ending.opened_page = true;
  root.ending.phase = Phase::training;
  root.step = 5;
  root.steps_total = 9;
  EXPECT_THAT(text_of(failed({root}, 0)), HasSubstr("  progress  : step 5 of 9, phase training\n"));
  EXPECT_EQ(members_of(failed({root}, 0)).at("root_cause").at("step"), 5);
}

TEST(JobReport, NamesWhoeverLeftTooEarly) {
  WorkerReport root = worker(0, ExitStatus{});
  root.ending.opened_page = true;
  root.ending.phase = Phase::loading;
  EXPECT_THAT(text_of(failed({root}, 0)), HasSubstr("left with exit code 0 in phase loading"));
}

TEST(JobReport, AStopIsOneLine) {
  Verdict verdict;
  verdict.workers = {stopped_worker(0)};
  verdict.outcome = Stopped{SIGHUP, -1};
  verdict.exit_code = 129;
  EXPECT_EQ(text_of(verdict), "ddp-launch: stopped by SIGHUP; exit code 129.\n");
  for (const int rank : {1, 2}) {
    WorkerReport worker;
    worker.ending.rank = rank;
    worker.ending.stop_sent = worker.ending.kill_sent = true;
    worker.ending.status.signal = SIGKILL;
    verdict.workers.push_back(worker);
  }
  EXPECT_EQ(
      text_of(verdict),
      "ddp-launch: stopped by SIGHUP; exit code 129.\n"
      "ddp-launch: rank 1 and 1 more did not end in time and were killed: what was not saved is "
      "lost (more time: --grace).\n");
  verdict.second_stop_request = true;
  EXPECT_THAT(text_of(verdict),
              HasSubstr("rank 1 and 1 more were killed by the second request to stop: what"));
  verdict.workers.clear();
  verdict.outcome = Stopped{0, 3};
  verdict.exit_code = 143;
  EXPECT_EQ(text_of(verdict),
            "ddp-launch: stopped after a checkpoint, asked for at rank 3; exit code 143.\n");
  EXPECT_EQ(members_of(verdict).at("decided_by"), "user");
}

TEST(JobReport, TheLaunchersOwnFailureIsSaid) {
  Verdict verdict;
  verdict.outcome = LauncherFailed{126, "fork: no"};
  verdict.exit_code = 126;
  EXPECT_EQ(text_of(verdict), "ddp-launch: fork: no\n");
  EXPECT_EQ(members_of(verdict).at("failure"), "fork: no");
  EXPECT_EQ(members_of(verdict).at("decided_by"), "launcher");
}

TEST(JobReport, UnkilledProcessesAreNamed) {
  Verdict verdict;
  verdict.unkilled = {"pid 7 (x, state D)"};
  verdict.exit_code = 125;
  EXPECT_THAT(text_of(verdict), HasSubstr("could not be killed and is left: pid 7 (x, state D)\n"));
  EXPECT_EQ(members_of(verdict).at("unkilled").at(0), "pid 7 (x, state D)");
  EXPECT_EQ(members_of(verdict).at("decided_by"), "launcher");
}

TEST(JobReport, MembersAreThoseOfEveryWorker) {
  Verdict verdict = failed({worker(0, ExitStatus{3, 0, false}), stopped_worker(1)}, 0);
  verdict.duration = 1500ms;
  verdict.world_size = 2;
  const json::object members = members_of(verdict);
  EXPECT_EQ(members.at("host"), "node-a");
  EXPECT_EQ(members.at("world_size"), 2);
  EXPECT_EQ(members.at("seconds"), 1.5);
  ASSERT_EQ(members.at("workers").as_array().size(), 2U);
  EXPECT_EQ(members.at("workers").at(1).at("signal"), "SIGTERM");
  EXPECT_EQ(members.at("workers").at(1).at("exit_code"), 143);
  EXPECT_EQ(members.at("root_cause").at("what"), "exit code 3");
}

TEST(JobReport, ANodeThatEndsAloneSaysWhyAndWhatHadHappenedBefore) {
  EndWithoutNodeZero end;
  end.exit_code = 201;
  end.command.reason = EndReason::node_lost;
  end.command.round = 1;
  end.lost = NodeLost{0, "a, 10.0.0.1", "silent for 5.1 s", {}};
  EndRound before;
  before.what = "rank 3 (pid 17) has failed: exit code 7";
  const EndJob lost = describe_end_without_node_zero(end, before, 2, JobSpec(), "b");
  EXPECT_EQ(lost.exit_code, 201);
  EXPECT_EQ(lost.state, RunState::failed);
  EXPECT_THAT(lost.members, HasSubstr("\"rounds\":2"));
  EXPECT_THAT(lost.report,
              AllOf(HasSubstr("silent for 5.1 s"),
                    HasSubstr("the round was being ended, as rank 3 (pid 17) has failed")));

  EndWithoutNodeZero unanswered;
  unanswered.exit_code = 130;
  unanswered.command.reason = EndReason::stop_unanswered;
  unanswered.text = "SIGINT came twice: this node leaves it.";
  const EndJob left = describe_end_without_node_zero(unanswered, std::nullopt, 2, JobSpec(), "b");
  EXPECT_EQ(left.state, RunState::stopped);
  EXPECT_EQ(left.report, "ddp-launch: SIGINT came twice: this node leaves it.\n");
}

// What ddp-worker finds wrong with a job is one line, which it has printed.
TEST(JobReport, ARefusedJobIsShort) {
  const auto report_of =
      [](const ExitStatus& status, std::int64_t step, bool takes_job_file, int nodes) {
        Verdict verdict;
        verdict.rounds = 1;
        verdict.workers = {worker(0, status), worker(1, ExitStatus{0, SIGTERM, false})};
        verdict.workers[0].step = step;
        verdict.workers[0].pid = 17;
        verdict.workers[0].last_lines = {"ddp-worker: data.root: no such directory"};
        verdict.outcome = Failed{0, {1}, status.code};
        verdict.exit_code = status.code;
        JobSpec spec;
        spec.takes_job_file = takes_job_file;
        spec.entry = "ddp-worker";
        spec.max_nodes = nodes;
        spec.logs.shown = {true, true};
        spec.logs.redirects = spec.logs.tee = {0, 0};
        return format_report(verdict, spec);
      };
  const ExitStatus refused{2, 0, false};
  EXPECT_EQ(
      report_of(refused, 0, true, 1),
      "ddp-launch: rank 0 (pid 17) has refused the job before its first step; exit code 2.\n");
  EXPECT_THAT(report_of(refused, 1, true, 1), HasSubstr("Root Cause"));
  EXPECT_THAT(report_of(refused, 0, false, 1), HasSubstr("Root Cause"));
  EXPECT_THAT(report_of(refused, 0, true, 2), HasSubstr("Root Cause"));
  EXPECT_THAT(report_of(ExitStatus{1, 0, false}, 0, true, 1), HasSubstr("Root Cause"));
}

// Without a page nothing tells what a program in place of ddp-worker has done.
TEST(JobReport, ARefusalByAProgramInPlaceOfDdpWorkerIsShortWhereAPageTellsOfNoStep) {
  Verdict verdict;
  verdict.rounds = 1;
  verdict.workers = {worker(0, ExitStatus{2, 0, false}), worker(1, ExitStatus{0, SIGTERM, false})};
  verdict.outcome = Failed{0, {1}, 2};
  verdict.exit_code = 2;
  JobSpec spec;
  spec.takes_job_file = true;
  spec.entry = "./tiny";
  spec.logs.shown = {true, true};
  spec.logs.redirects = spec.logs.tee = {0, 0};
  EXPECT_THAT(format_report(verdict, spec), HasSubstr("Root Cause"));
  EXPECT_FALSE(describe_end(verdict, spec, "a", 8).has_no_step);
  verdict.workers[0].last_lines = {"tiny: no such data"};
  verdict.workers[0].ending.opened_page = true;
  EXPECT_THAT(format_report(verdict, spec), HasSubstr("has refused the job before its first step"));
  EXPECT_TRUE(describe_end(verdict, spec, "a", 8).has_no_step);
  verdict.workers[0].ending.phase = Phase::training;
  EXPECT_FALSE(describe_end(verdict, spec, "a", 8).has_no_step) << "it may count no steps";
}

}  // namespace
}  // namespace ddp::launcher
