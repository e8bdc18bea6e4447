// What the workers print: whole lines with their rank on the console, raw bytes in the log files,
// and the report.
#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

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
                           DDP_FAKE_WORKER,
                           "pid",
                           "wait",
                           "USR1",
                           "error",
                           "one",
                           "error",
                           "after"});
  ASSERT_TRUE(job->sees("pid "));
  // The file of stderr is opened with its first bytes: a directory stands in its place by then.
  std::filesystem::create_directory(runs / "fake_worker/logs/round-0/rank-0.err");
  ::kill(job->number_after("pid "), SIGUSR1);
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
  EXPECT_THAT(job->err(), HasSubstr("exitcode   : 3 (pid: "));
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
