#include "common/run_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "tests/unit/scratch.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RunDirTest : public ::testing::Test {
 protected:
  [[nodiscard]] JobValues job(const std::vector<std::string>& more = {}) const {
    std::vector<JobOverride> overrides{{"output", folder_.string(), "output"},
                                       {"data.batch_per_rank", "64", "test"}};
    for (const std::string& argument : more)
      overrides.push_back(parse_override(argument).value());
    return resolve_job(nullptr, overrides);
  }

  Scratch scratch_;
  fs::path folder_ = scratch_.path();
};

TEST_F(RunDirTest, ANewRunHasItsRecords) {
  const RunDir run = RunDir::choose(job(), 2, "ddp-launch job.yaml");
  EXPECT_EQ(run.path(), folder_ / "run");
  EXPECT_FALSE(run.continues());
  EXPECT_EQ(read_file(run.path() / "command.txt"), "ddp-launch job.yaml\n");
  EXPECT_THAT(read_file(run.path() / "result.json").value(), HasSubstr("\"state\":\"running\""));
  EXPECT_THAT(read_file(run.path() / "job.yaml").value(), HasSubstr("batch_per_rank: 64"));
  EXPECT_EQ(fs::read_symlink(folder_ / "latest"), "run");
}

TEST_F(RunDirTest, OfARefusedJobNothingIsLeft) {
  const fs::path output = folder_ / "runs";
  const std::vector<std::string> there{"output=" + output.string()};
  RunDir::choose(job(there), 2, "a").remove_unused(exit_code::kUsage);
  EXPECT_FALSE(fs::exists(output));

  fs::create_directory(output);
  RunDir first = RunDir::choose(job(there), 2, "a");
  RunDir second = RunDir::choose(job(there), 3, "b");
  EXPECT_TRUE(second.remove_unused(exit_code::kStoppedAfterCheckpoint));
  EXPECT_FALSE(fs::exists(second.path()));
  EXPECT_EQ(fs::read_symlink(output / "latest"), "run");
  EXPECT_TRUE(first.remove_unused(exit_code::kUsage));
  EXPECT_TRUE(fs::is_empty(output));
}

TEST_F(RunDirTest, ACrashAndAContinuedRunKeepTheirDirectory) {
  {
    RunDir first = RunDir::choose(job(), 2, "a");
    EXPECT_FALSE(first.remove_unused(exit_code::of_signal(11)));
  }
  RunDir second = RunDir::choose(job(), 2, "b");
  EXPECT_FALSE(second.remove_unused(exit_code::kUsage));
  EXPECT_TRUE(fs::exists(second.path() / "job.yaml"));
}

TEST_F(RunDirTest, AnUnfinishedRunIsContinuedByTheSameJob) {
  { const RunDir first = RunDir::choose(job(), 2, "a"); }
  const RunDir second = RunDir::choose(job({"train.epochs=9"}), 2, "b");
  EXPECT_TRUE(second.continues());
  EXPECT_EQ(second.path(), folder_ / "run");
}

TEST_F(RunDirTest, AnotherJobGetsItsOwnDirectoryAndIsToldWhy) {
  { const RunDir first = RunDir::choose(job(), 2, "a"); }
  const RunDir other_lr = RunDir::choose(job({"optimizer.lr=0.1"}), 2, "b");
  EXPECT_EQ(other_lr.path(), folder_ / "run2");
  EXPECT_THAT(other_lr.notice(), HasSubstr("optimizer.lr was 0.05"));
}

TEST_F(RunDirTest, AnotherWholeBatchIsAnotherJob) {
  { const RunDir first = RunDir::choose(job(), 2, "a"); }
  const RunDir other = RunDir::choose(job(), 3, "b");
  EXPECT_FALSE(other.continues());
  EXPECT_THAT(other.notice(), HasSubstr("the whole batch was 128"));
}

TEST_F(RunDirTest, AFinishedRunIsNotContinued) {
  {
    const RunDir first = RunDir::choose(job(), 1, "a");
    write_result(first.path(), 0, "");
  }
  EXPECT_EQ(RunDir::choose(job(), 1, "b").path(), folder_ / "run2");
}

TEST_F(RunDirTest, AnOlderUnfinishedRunIsFoundBehindOthers) {
  { const RunDir first = RunDir::choose(job(), 1, "a"); }
  {
    const RunDir other = RunDir::choose(job({"optimizer.lr=0.1"}), 1, "b");
    write_result(other.path(), 0, "");
  }
  const RunDir again = RunDir::choose(job(), 1, "c");
  EXPECT_TRUE(again.continues());
  EXPECT_EQ(again.path(), folder_ / "run");
}

TEST_F(RunDirTest, AGapInTheNumbersHidesNothing) {
  { const RunDir first = RunDir::choose(job({"optimizer.lr=0.1"}), 1, "a"); }
  { const RunDir second = RunDir::choose(job(), 1, "b"); }
  fs::remove_all(folder_ / "run");
  EXPECT_EQ(RunDir::choose(job(), 1, "c").path(), folder_ / "run2");
}

TEST_F(RunDirTest, AFileInTheWayIsNoRun) {
  replace_file(folder_ / "run", "x");
  const RunDir run = RunDir::choose(job(), 1, "a");
  EXPECT_EQ(run.path(), folder_ / "run2");
  EXPECT_THAT(run.notice(), HasSubstr("Not a directory"));
}

TEST_F(RunDirTest, AFailedRunIsContinued) {
  {
    const RunDir first = RunDir::choose(job(), 1, "a");
    write_result(first.path(), 137, "\"decided_by\":\"worker\"");
    EXPECT_THAT(read_file(first.path() / "result.json").value(),
                HasSubstr("\"state\":\"failed\",\"exit_code\":137"));
  }
  EXPECT_TRUE(RunDir::choose(job(), 1, "b").continues());
}

TEST_F(RunDirTest, ALauncherKnowsBetterThanTheCodeWhatStateItIs) {
  const RunDir run = RunDir::choose(job(), 1, "a");
  write_result(run.path(), 129, "", RunState::stopped);
  EXPECT_THAT(read_file(run.path() / "result.json").value(), HasSubstr("\"state\":\"stopped\""));
  write_result(run.path(), 130, "", RunState::failed);
  EXPECT_THAT(read_file(run.path() / "result.json").value(), HasSubstr("\"state\":\"failed\""));
  write_result(run.path(), 130, "");
  EXPECT_THAT(read_file(run.path() / "result.json").value(), HasSubstr("\"state\":\"stopped\""));
}

TEST_F(RunDirTest, ALivingRunIsLeftAlone) {
  const RunDir first = RunDir::choose(job(), 1, "a");
  const RunDir second = RunDir::choose(job(), 1, "b");
  EXPECT_EQ(second.path(), folder_ / "run2");
  EXPECT_THAT(second.notice(), HasSubstr("still running"));
}

TEST_F(RunDirTest, NeverMeansNever) {
  { const RunDir first = RunDir::choose(job({"checkpoint.resume=never"}), 1, "a"); }
  EXPECT_FALSE(RunDir::choose(job({"checkpoint.resume=never"}), 1, "b").continues());
}

TEST_F(RunDirTest, ACheckpointOfTheUsersChoiceStartsANewDirectory) {
  { const RunDir first = RunDir::choose(job(), 1, "a"); }
  EXPECT_FALSE(RunDir::choose(job({"checkpoint.resume=runs/x/checkpoints/step-000001"}), 1, "b")
                   .continues());
}

TEST_F(RunDirTest, AnOutputThatCannotBeMadeIsNamed) {
  const fs::path file = folder_ / "file";
  replace_file(file, "x");
  try {
    RunDir::choose(job({"output=" + (file / "below").string()}), 1, "a");
    FAIL() << "a file is no directory";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr(file.string()));
  }
}

}  // namespace
}  // namespace ddp
