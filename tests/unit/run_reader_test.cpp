#include "common/report/run_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/files/files.h"
#include "common/report/run_page.h"
#include "tests/unit/scratch.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunReaderTest : public ::testing::Test {
 protected:
  RunReaderTest() {
    fs::create_directory(scratch_.path() / "run");
    fs::permissions(scratch_.path() / "run", fs::perms::owner_all);
  }
  void write(const std::string& name, const std::string& text) const {
    scratch_.write("run/" + name, text);
  }
  [[nodiscard]] fs::path path() const { return scratch_.path() / "run"; }

  Scratch scratch_;
};

TEST_F(RunReaderTest, WholeLinesCountAndTornOnesDoNot) {
  write("result.json", R"({"state":"running"})");
  write("metrics.jsonl",
        R"({"kind":"step","step":1,"loss":2})"
        "\n"
        R"({"kind":"step","step":2,"loss":1})");
  fs::create_directories(path() / "checkpoints" / "step-000007");
  fs::create_directory(path() / "checkpoints" / "step-000009.tmp");
  const RunRecord run = read_run(path());
  EXPECT_EQ(run.name, "run");
  EXPECT_EQ(run.state, "running");
  EXPECT_EQ(run.steps.size(), 1U);
  EXPECT_THAT(run.checkpoints, ElementsAre("step-000007"));
  EXPECT_THAT(run.saves, ElementsAre(7));
}

TEST_F(RunReaderTest, ARunThatNobodyRunsAnyMoreIsLost) {
  write("result.json", R"({"state":"running","pid":1})");
  write(".lock", "");
  EXPECT_EQ(read_run(path()).state, "lost");
  const Descriptor held(::open((path() / ".lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(held.fd(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(read_run(path()).state, "running");
  ASSERT_EQ(::flock(held.fd(), LOCK_UN), 0);
  write("result.json", R"({"state":"finished"})");
  EXPECT_EQ(read_run(path()).state, "finished");
}

TEST_F(RunReaderTest, TheCsvIsReadWhereThereIsNoOther) {
  write("metrics.csv", "kind,epoch,step,loss\nstep,0,5,1.5\nstep,0,6");
  EXPECT_EQ(read_run(path()).steps.size(), 1U);
}

TEST_F(RunReaderTest, OnlyRegularFilesAreRead) {
  write("result.json", "{}");
  scratch_.write("secret", "{\"kind\":\"step\",\"step\":1,\"loss\":2}\n");
  fs::create_symlink(scratch_.path() / "secret", path() / "metrics.jsonl");
  ASSERT_EQ(::mkfifo((path() / "rounds.jsonl").c_str(), 0600), 0);
  write("metrics.csv", "kind,epoch,step\nstep,0,5\n");
  const RunRecord run = read_run(OwnedDir::require(path()));
  EXPECT_EQ(run.steps.size(), 1U) << "of the CSV";
  EXPECT_EQ(run.problems.size(), 2U);
}

TEST_F(RunReaderTest, ADirectoryThatIsNotARunIsRefused) {
  EXPECT_THROW((void)read_run(path()), UsageError);
  EXPECT_THROW((void)read_run(path() / "none"), UsageError);
}

TEST_F(RunReaderTest, AReportIsWrittenAndAFailureIsNoError) {
  write("result.json", R"({"state":"failed","exit_code":7})");
  const OwnedDir directory = OwnedDir::require(path());
  write_run_page(directory);
  EXPECT_THAT(read_file(path() / "report.html").value(), HasSubstr("Exit code 7"));
  fs::remove(path() / "report.html");
  fs::create_directory(path() / "report.html");
  write_run_page(directory);
  EXPECT_TRUE(fs::is_directory(path() / "report.html"));
}

}  // namespace
}  // namespace ddp
