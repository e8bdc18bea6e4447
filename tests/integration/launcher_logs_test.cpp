// Where the workers' output goes: torchrun's layout, redirects and tees, filters, prefixes,
// colours, folding.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "common/node/identity.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class LauncherLogs : public ProcessTest {
 protected:
  /// ddp-launch FLAGS fake_worker VERBS, both split at blanks.
  std::unique_ptr<Running> launch_with(std::vector<std::string> flags, const std::string& verbs) {
    flags.emplace_back(DDP_FAKE_WORKER);
    std::istringstream words(verbs);
    for (std::string word; words >> word;)
      flags.push_back(word);
    return launch(flags);
  }
  [[nodiscard]] std::string logs() const { return (scratch() / "logs").string(); }
  /// The one directory in `logs`.
  [[nodiscard]] fs::path own_dir() const {
    const fs::directory_iterator entries(logs());
    EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
    return fs::directory_iterator(logs())->path();
  }
  /// All files below it, by relative path.
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> files;
    const fs::path base = own_dir();
    for (const auto& entry : fs::recursive_directory_iterator(base)) {
      if (entry.is_regular_file()) files.insert(fs::relative(entry.path(), base).string());
    }
    return files;
  }
};

TEST_F(LauncherLogs, TheListingIsTorchruns) {
  const auto job =
      launch_with({"--nproc-per-node=2",
                   "--log-dir=" + logs(),
                   "-t3",
                   "--rdzv-id=team/job",
                   "--duplicate-stdout-filters=hello",
                   "--duplicate-stderr-filters=apple"},
                  "print hello print other error apple error pear on 1 [ message X:y ]");
  ASSERT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(own_dir().filename().string(), testing::MatchesRegex("team_job_[0-9a-z]{8}"));
  EXPECT_THAT(files(),
              UnorderedElementsAre("result.json",
                                   "attempt_0/0/stdout.log",
                                   "attempt_0/0/stderr.log",
                                   "attempt_0/1/stdout.log",
                                   "attempt_0/1/stderr.log",
                                   "attempt_0/1/error.json",
                                   "attempt_0/filtered_stdout.log",
                                   "attempt_0/filtered_stderr.log"));
  EXPECT_EQ(read(own_dir() / "attempt_0/1/stdout.log"), "hello\nother\n");
  EXPECT_THAT(lines_of(read(own_dir() / "attempt_0/filtered_stdout.log")),
              UnorderedElementsAre("[default0]:hello", "[default1]:hello"));
  EXPECT_THAT(lines_of(read(own_dir() / "attempt_0/filtered_stderr.log")),
              UnorderedElementsAre("[default0]:apple", "[default1]:apple"));
  EXPECT_THAT(lines_of(job->out()),
              UnorderedElementsAre(
                  "[default0]:hello", "[default0]:other", "[default1]:hello", "[default1]:other"));
}

TEST_F(LauncherLogs, RedirectedStreamsAreInTheFileOnly) {
  const auto job = launch_with({"--nproc-per-node=2", "--log-dir=" + logs(), "-r", "0:1,1:2"},
                               "print o error e");
  ASSERT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(job->out(), "[0:1] o\n");
  EXPECT_THAT(job->err(), HasSubstr("[0:0] e\n"));
  EXPECT_THAT(job->err(), Not(HasSubstr("[0:1] e\n")));
  EXPECT_THAT(
      files(),
      UnorderedElementsAre("result.json", "attempt_0/0/stdout.log", "attempt_0/1/stderr.log"));
}

TEST_F(LauncherLogs, EveryRoundHasItsOwnFiles) {
  const auto job =
      launch_with({"--log-dir=" + logs(), "-r1", "--max-restarts=1"}, "print x message X:y exit 3");
  ASSERT_EQ(job->wait(), 3) << job->err();
  EXPECT_THAT(files(),
              UnorderedElementsAre("result.json",
                                   "attempt_0/0/stdout.log",
                                   "attempt_0/0/error.json",
                                   "attempt_1/0/stdout.log",
                                   "attempt_1/0/error.json"));
  EXPECT_EQ(read(own_dir() / "attempt_1/0/stdout.log"), "x\n");
}

TEST_F(LauncherLogs, WithoutADirectoryTheTemporaryOneIsUsedAndNamed) {
  const auto job = start(Command{.arguments = {DDP_LAUNCH, "-r1", DDP_FAKE_WORKER, "print", "x"},
                                 .environment = {{"TMPDIR", scratch().string()}}});
  ASSERT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(job->out(), "");
  const std::size_t at = job->err().find(scratch().string() + "/torchelastic_");
  ASSERT_NE(at, std::string::npos) << job->err();
  const fs::path dir = job->err().substr(at, job->err().find('\n', at) - at);
  EXPECT_EQ(read(dir / "attempt_0/0/stdout.log"), "x\n");
}

TEST_F(LauncherLogs, NoFilesAreMadeWithoutLogging) {
  const auto job = start(Command{.arguments = {DDP_LAUNCH, DDP_FAKE_WORKER, "print", "x"},
                                 .environment = {{"TMPDIR", scratch().string()}}});
  ASSERT_EQ(job->wait(), 0) << job->err();
  EXPECT_TRUE(fs::is_empty(scratch()));
}

TEST_F(LauncherLogs, TheErrorFileOfTorchrunsLayoutIsAbsoluteAndRead) {
  fs::create_directory(scratch() / "here");
  const auto job = start(Command{.arguments = {"/bin/sh",
                                               "-c",
                                               "cd \"$0\" && exec \"$@\"",
                                               (scratch() / "here").string(),
                                               DDP_LAUNCH,
                                               "--log-dir=../logs",
                                               DDP_FAKE_WORKER,
                                               "environment",
                                               "message",
                                               "ValueError:bad",
                                               "exit",
                                               "3"}});
  ASSERT_EQ(job->wait(), 3);
  const std::string file = (own_dir() / "attempt_0/0/error.json").string();
  EXPECT_THAT(job->out(), testing::ContainsRegex("TORCHELASTIC_ERROR_FILE=/[^\n]*/error.json\n"));
  EXPECT_TRUE(fs::exists(file));
  EXPECT_THAT(job->err(), HasSubstr("traceback : ValueError:bad"));
  EXPECT_THAT(read(own_dir() / "result.json"), HasSubstr("\"exit_code\":3"));
}

TEST_F(LauncherLogs, DevNullMeansNoFileAndNoErrorFile) {
  const auto job = launch_with({"--log-dir=/dev/null", "-r3"}, "environment print shown exit 4");
  ASSERT_EQ(job->wait(), 4);
  EXPECT_THAT(job->out(), HasSubstr("TORCHELASTIC_ERROR_FILE=\n"));
  EXPECT_THAT(job->out(), HasSubstr("[0:0] shown\n"));
  EXPECT_THAT(job->err(), HasSubstr("error_file: <N/A>"));
}

TEST_F(LauncherLogs, AFileAsLogDirectoryIsRefused) {
  const std::string file = write_file("file", "");
  const auto job = launch_with({"--log-dir=" + file}, "print no");
  EXPECT_EQ(job->wait(), 2);
  EXPECT_THAT(job->err(), HasSubstr("cannot make " + file));
  EXPECT_THAT(job->err(), HasSubstr("--log-dir"));
  EXPECT_EQ(job->out(), "");
}

TEST_F(LauncherLogs, HiddenRanksAreInTheirFilesAndAreQuotedWhenTheyFail) {
  const auto job = launch_with({"--nproc-per-node=3",
                                "--grace=2s",
                                "--log-dir=" + logs(),
                                "-t3",
                                "--local-ranks-filter=0,2",
                                "--duplicate-stdout-filters=line"},
                               "print line-of-all on 1 [ print last-line error why exit 5 ] hold");
  ASSERT_EQ(job->wait(), 5);
  EXPECT_THAT(job->out(), Not(HasSubstr("[default1]")));
  EXPECT_THAT(job->err(), Not(HasSubstr("[default1]")));
  EXPECT_THAT(job->err(), HasSubstr("last lines of its stderr:\n    why\n"));
  EXPECT_THAT(job->err(),
              HasSubstr("last lines of its stdout, which was not shown:\n    line-of-all\n    "
                        "last-line\n"));
  EXPECT_EQ(read(own_dir() / "attempt_0/1/stdout.log"), "line-of-all\nlast-line\n");
  EXPECT_THAT(read(own_dir() / "attempt_0/filtered_stdout.log"), Not(HasSubstr("[default1]")));
}

TEST_F(LauncherLogs, ATemplateIsThePrefix) {
  const auto job = start(Command{
      .arguments =
          {DDP_LAUNCH, "--role=trainer", "--nproc-per-node=2", DDP_FAKE_WORKER, "print", "x"},
      .environment = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
                       "${role_name}-${rank}-${local_rank}-${stream}-${other}$$ "}}});
  ASSERT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(
      lines_of(job->out()),
      UnorderedElementsAre("trainer-0-0-stdout-${other}$ x", "trainer-1-1-stdout-${other}$ x"));
}

TEST_F(LauncherLogs, TorchsFlagOfATemplateBeatsItsVariables) {
  const auto job =
      start(Command{.arguments = {DDP_LAUNCH,
                                  "--log_line_prefix_template",
                                  "<${role_name} ${local_rank} ${rank} ${hostname}> ",
                                  DDP_FAKE_WORKER,
                                  "print",
                                  "x"},
                    .environment = {{"PET_LOG_LINE_PREFIX_TEMPLATE", "pet "},
                                    {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "old "}}});
  ASSERT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(job->out(), "<default 0 0 " + host_name() + "> x\n");
}

TEST_F(LauncherLogs, APrefixTellsPidAndTime) {
  const auto job = launch_with({"--prefix=${time} ${pid}: "}, "pid");
  ASSERT_EQ(job->wait(), 0) << job->err();
  const std::string pid = std::to_string(job->number_after("pid "));
  EXPECT_THAT(job->out(),
              testing::MatchesRegex("[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} " + pid + ": pid " +
                                    pid + "\n"));
}

TEST_F(LauncherLogs, ColorsAreOnlyWhereTheyAreAskedFor) {
  const auto none = launch_with({}, "print x");
  ASSERT_EQ(none->wait(), 0);
  EXPECT_EQ(none->out(), "[0:0] x\n");  // a pipe is not a terminal
  const auto always = launch_with(
      {"--color=always", "--log-dir=" + logs(), "-t1", "--duplicate-stdout-filters=x"}, "print x");
  ASSERT_EQ(always->wait(), 0);
  EXPECT_THAT(always->out(), testing::MatchesRegex("\x1b\\[[0-9]+m\\[default0\\]:\x1b\\[0mx\n"));
  EXPECT_EQ(read(own_dir() / "attempt_0/filtered_stdout.log"), "[default0]:x\n");
}

TEST_F(LauncherLogs, EqualLinesAreFolded) {
  const auto job =
      launch_with({"--nproc-per-node=4", "--fold"}, "print same on 2 [ print alone ] print after");
  ASSERT_EQ(job->wait(), 0) << job->err();
  // However the ranks are scheduled: each rank's lines are there, in order, and none twice.
  std::map<char, std::vector<std::string>> said;
  for (const std::string& line : lines_of(job->out())) {
    const std::size_t end = line.find("] ");
    ASSERT_TRUE(line.starts_with("[0:") && end != std::string::npos) << line;
    for (char rank = '0'; rank < '4'; ++rank) {
      const std::string ranks = line.substr(3, end - 3);
      bool is_in = false;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        const bool is_range = i + 2 < ranks.size() && ranks[i + 1] == '-';
        is_in = is_in || ranks[i] == rank || (is_range && ranks[i] < rank && rank < ranks[i + 2]);
      }
      if (is_in) said[rank].push_back(line.substr(end + 2));
    }
  }
  EXPECT_THAT(said['0'], ElementsAre("same", "after"));
  EXPECT_THAT(said['1'], ElementsAre("same", "after"));
  EXPECT_THAT(said['2'], ElementsAre("same", "alone", "after"));
  EXPECT_THAT(said['3'], ElementsAre("same", "after"));
}

TEST_F(LauncherLogs, LinesOfAllRanksCarryOnePrefix) {
  // Ranks that are more than the window apart are not an error, so a loaded machine gets more
  // tries.
  const auto folds = [&] {
    const auto job = launch_with({"--nproc-per-node=4", "--fold"}, "lines 50 text");
    EXPECT_EQ(job->wait(), 0);
    return job->out().find("[0:0-3] text ") != std::string::npos;
  };
  EXPECT_TRUE(eventually(folds, kTestTimeout));
}

}  // namespace
}  // namespace ddp::test
