// What the workers print: whole lines with their rank on the console, raw bytes in the log files,
// and the report.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

class LauncherOutput : public ProcessTest {
 protected:
  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
};

TEST_F(LauncherOutput, O5_LinesOfManyWorkersAreWholeAndInOrder) {
  constexpr int kWorkers = 8;
  constexpr int kLines = 500;
  const auto job =
      launch_fakes(kWorkers, "lines " + std::to_string(kLines) + " some-text-of-a-line");
  ASSERT_EQ(job->wait(), 0);
  std::map<std::string, int> next;
  for (const std::string& line : lines_of(job->out())) {
    const std::string prefix = line.substr(0, 6);
    EXPECT_THAT(prefix, testing::MatchesRegex("\\[0:[0-7]\\] "));
    EXPECT_EQ(line.substr(6), "some-text-of-a-line " + std::to_string(next[prefix]++));
  }
  EXPECT_EQ(next.size(), static_cast<std::size_t>(kWorkers));
  for (const auto& [prefix, count] : next)
    EXPECT_EQ(count, kLines) << prefix;
}

TEST_F(LauncherOutput, StdoutAndStderrStayApart) {
  const auto job = launch_fakes(1, "print to-out error to-err");
  ASSERT_EQ(job->wait(), 0);
  EXPECT_EQ(job->out(), "[0:0] to-out\n");
  EXPECT_EQ(job->err(), "[0:0] to-err\n");
}

TEST_F(LauncherOutput, O3_ALastLineWithoutNewlineIsShownAndMarked) {
  const auto job = launch_fakes(1, "print first partial last raise KILL");
  ASSERT_EQ(job->wait(), 137);
  EXPECT_EQ(job->out(), "[0:0] first\n[0:0] last [no newline]\n");
}

// As tqdm draws three bars below each other: down, the state, and up again.
TEST_F(LauncherOutput, BarsBelowEachOtherAreALineNowAndThenWhereThereIsNoTerminal) {
  const auto job = launch({"/bin/sh",
                           "-c",
                           R"(i=0; while [ $$i -lt 100 ]; do i=$$((i+1))
                 printf '\router %s\n\rmiddle %s\033[A\n\n\rinner %s\033[A\033[A' $$i $$i $$i; done
                 printf '\n\n\n'; echo done)"});
  ASSERT_EQ(job->wait(), 0) << job->err();
  const std::vector<std::string> lines = lines_of(job->out());
  EXPECT_LT(lines.size(), 12U) << job->out();  // 200 and more without
  EXPECT_EQ(lines.back(), "[0:0] done");
  EXPECT_THAT(job->out(), HasSubstr("100"));
}

TEST_F(LauncherOutput, O2_ALongLineComesInPiecesAndIsRawInTheFile) {
  const auto job = launch(
      {"--output", (scratch() / "runs").string(), DDP_FAKE_WORKER, "fill", "200000", "print", ""});
  ASSERT_EQ(job->wait(), 0) << job->err();
  const std::vector<std::string> lines = lines_of(job->out());
  ASSERT_EQ(lines.size(), 4U);  // 3 x 64 KiB and the rest
  EXPECT_EQ(lines[0].size(), 65536U + 6U);
  EXPECT_EQ(read(scratch() / "runs/fake_worker/logs/round-0/rank-0.out"),
            std::string(200000, 'x') + "\n");
}

TEST_F(LauncherOutput, O4_ALogFileThatCannotBeWrittenIsOneWarning) {
  const auto runs = scratch() / "runs";
  const auto job = launch({"--output",
                           runs.string(),
                           "--max-restarts=1",
                           DDP_FAKE_WORKER,
                           "round",
                           "0",
                           "[",
                           "pid",
                           "hold",
                           "]",
                           "error",
                           "one",
                           "error",
                           "after"});
  ASSERT_TRUE(job->sees("pid "));
  // Files are opened when a round begins: a directory stands in the place of one by then.
  std::filesystem::create_directories(runs / "fake_worker/logs/round-1/rank-0.err");
  send_signal(job->number_after("pid "), SIGKILL);
  EXPECT_EQ(job->wait(), 0);
  EXPECT_THAT(job->err(), HasSubstr("[0:0] after"));
  const std::string warning = "rank-0.err: Is a directory; the job goes on without it.";
  EXPECT_THAT(job->err(), HasSubstr(warning));
  EXPECT_EQ(job->err().find(warning), job->err().rfind(warning));
}

TEST_F(LauncherOutput, TheReportQuotesErrorFileAndLastLines) {
  const auto job = launch_fakes(2, "on 1 [ error last-words message ValueError:bad exit 3 ] hold");
  ASSERT_EQ(job->wait(), 3);
  EXPECT_THAT(job->err(), HasSubstr("ValueError:bad\n"));
  EXPECT_THAT(job->err(), HasSubstr("    at here\n"));
  EXPECT_THAT(job->err(), HasSubstr("  last lines of its stderr:\n    last-words\n"));
  EXPECT_THAT(job->err(), HasSubstr("exitcode  : 3 (pid: "));
}

TEST_F(LauncherOutput, ResultJsonSaysWhoDecided) {
  const auto runs = scratch() / "runs";
  const auto job = launch({"--output",
                           runs.string(),
                           "--nproc-per-node",
                           "2",
                           DDP_FAKE_WORKER,
                           "on",
                           "1",
                           "[",
                           "exit",
                           "7",
                           "]",
                           "hold"});
  ASSERT_EQ(job->wait(), 7);
  const std::string result = read(runs / "fake_worker/result.json");
  EXPECT_THAT(result, HasSubstr("\"exit_code\":7"));
  EXPECT_THAT(result, HasSubstr("\"decided_by\":\"worker\""));
  EXPECT_THAT(result, HasSubstr("\"root_cause\":{\"rank\":1"));
  EXPECT_THAT(read(runs / "fake_worker/command.txt"), StartsWith("ddp-launch --output "));
}

TEST_F(LauncherOutput, ASlowConsoleLosesNoLine) {
  // More than the launcher's queue holds (4 MiB): when the workers have ended, it is full and their
  // last lines are still in the pipes, for longer than a launcher waits for a pipe.
  constexpr int kWorkers = 2;
  constexpr std::size_t kLines = 3000;
  const auto job =
      launch_fakes(kWorkers, "lines " + std::to_string(kLines) + " " + std::string(1000, 'x'));
  job->read_stdout_by(4096);
  const auto have_ended = [&] {
    job->read_for(5ms);
    return job->out().size() > 1000000 && alive().size() == 2;  // launcher and guard
  };
  ASSERT_TRUE(eventually(have_ended, kTestTimeout));
  job->read_stdout_by(64);
  job->read_for(3500ms);
  job->read_stdout_by(65536);
  EXPECT_EQ(job->wait(), 0);
  EXPECT_EQ(lines_of(job->out()).size(), kWorkers * kLines);
  EXPECT_EQ(job->err(), "");
}

TEST_F(LauncherOutput, AConsoleThatTakesNothingIsGivenUpAndTheLogIsWhole) {
  // 4 MB are queued for a stdout that nobody reads when the worker has written its error file; of
  // the rest, the worker stays behind with a full pipe.
  const std::string text(1000, 'x');
  std::filesystem::create_directory(scratch() / "ddp");
  std::filesystem::permissions(scratch() / "ddp", std::filesystem::perms::owner_all);
  const auto job = start(Command{.arguments = {DDP_LAUNCH,
                                               "--output",
                                               (scratch() / "runs").string(),
                                               "--grace=2s",
                                               DDP_FAKE_WORKER,
                                               "lines",
                                               "2000",
                                               text,
                                               "message",
                                               "x",
                                               "lines",
                                               "9000",
                                               text,
                                               "hold"},
                                 .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
  job->read_stdout_by(0);
  const auto has_message = [&] {
    job->read_for(5ms);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch() / "ddp"))
      if (entry.path().extension() == ".json") return true;
    return false;
  };
  ASSERT_TRUE(eventually(has_message, kTestTimeout));
  const auto begin = std::chrono::steady_clock::now();
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_THAT(job->err(), HasSubstr("stdout has taken nothing for 3 s"));
  EXPECT_THAT(job->err(), HasSubstr("stopped by SIGTERM"));  // stderr does not suffer from stdout
  const std::vector<std::string> lines =
      lines_of(read(scratch() / "runs/fake_worker/logs/round-0/rank-0.out"));
  ASSERT_GE(lines.size(), 2000U);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const std::size_t number = i < 2000 ? i : i - 2000;
    ASSERT_EQ(lines[i], text + " " + std::to_string(number));
  }
}

TEST_F(LauncherOutput, AStreamThatIsHeldOpenIsCutWithOneLine) {
  const auto job = launch_fakes(1, "pid wait USR1 exit 0");
  ASSERT_TRUE(job->sees("pid "));
  const int worker = job->number_after("pid ");
  // Somebody else's process, this test, has opened the worker's stdout.
  const std::string path = "/proc/" + std::to_string(worker) + "/fd/1";
  const int held = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(held, 0);
  send_signal(worker, SIGUSR1);
  EXPECT_EQ(job->wait(), 0);
  EXPECT_THAT(job->err(),
              HasSubstr("rank 0 (pid " + std::to_string(worker) + "): its stdout is cut"));
  EXPECT_THAT(job->err(), testing::Not(HasSubstr("its stderr is cut")));
  ::close(held);
}

TEST_F(LauncherOutput, VerboseShowsHowTheJobIsSupervised) {
  const auto job = launch({"-v", "--nproc-per-node=2", DDP_FAKE_WORKER, "pid"});
  ASSERT_EQ(job->wait(), 0);
  EXPECT_THAT(job->err(), testing::ContainsRegex("guard: pid [0-9]+, run id [0-9a-f]+"));
  EXPECT_THAT(job->err(), testing::ContainsRegex("endpoint: 127.0.0.1:[0-9]+"));
  EXPECT_THAT(job->err(), HasSubstr("supervision: pidfd"));
  EXPECT_THAT(job->err(), HasSubstr("guard by session and agent id, "));
  EXPECT_THAT(job->err(), testing::ContainsRegex("rank 1: pid [0-9]+"));
}

TEST_F(LauncherOutput, AnyStopByTheUserIsStoppedInResultJson) {
  for (const int signal : {SIGHUP, SIGQUIT, SIGINT, SIGTERM}) {
    const auto runs = scratch() / std::to_string(signal);
    const auto job = launch({"--output", runs.string(), DDP_FAKE_WORKER, "print", "ready", "hold"});
    ASSERT_TRUE(job->sees("ready"));
    job->signal(signal);
    ASSERT_EQ(job->wait(), 128 + signal);
    const std::string result = read(runs / "fake_worker/result.json");
    EXPECT_THAT(result, HasSubstr("\"state\":\"stopped\"")) << signal;
    EXPECT_THAT(result, HasSubstr("\"decided_by\":\"user\"")) << signal;
  }
}

TEST_F(LauncherOutput, AWorkersOwnCode130IsAFailureInResultJson) {
  const auto runs = scratch() / "runs";
  const auto job = launch({"--output", runs.string(), DDP_FAKE_WORKER, "exit", "130"});
  ASSERT_EQ(job->wait(), 130);
  EXPECT_THAT(read(runs / "fake_worker/result.json"), HasSubstr("\"state\":\"failed\""));
}

TEST_F(LauncherOutput, TheRootCausesErrorFileGoesToTheLauncherAbove) {
  const std::string above = (scratch() / "above.json").string();
  const auto job =
      start(Command{.arguments = {DDP_LAUNCH, DDP_FAKE_WORKER, "message", "Error:x", "exit", "5"},
                    .environment = {{"TORCHELASTIC_ERROR_FILE", above}}});
  ASSERT_EQ(job->wait(), 5);
  EXPECT_THAT(read(above), HasSubstr("\"errorCode\":5"));
}

}  // namespace
}  // namespace ddp::test
