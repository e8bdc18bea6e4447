#include "common/run_dir/run_dir.h"
#include "common/job/job_text.h"
#include "common/job/resolve_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/files/files.h"
#include "tests/support/other_user.h"
#include "tests/unit/scratch.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kNever = "checkpoint.resume=never";
constexpr const char* kPath = "checkpoint.resume=runs/x/checkpoints/step-000001";

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

TEST_F(RunDirTest, RunDirOfARefusedJobIsRemoved) {
  const fs::path output = folder_ / "runs";
  const std::vector<std::string> there{"output=" + output.string()};
  RunDir::choose(job(there), 2, "a").remove_unused(exit_code::kUsage);
  EXPECT_FALSE(fs::exists(output));

  fs::create_directory(output);
  RunDir first = RunDir::choose(job(there), 2, "a");
  RunDir second = RunDir::choose(job(there), 3, "b");
  EXPECT_TRUE(second.remove_unused(exit_code::kTerminated));
  EXPECT_FALSE(fs::exists(second.path()));
  EXPECT_EQ(fs::read_symlink(output / "latest"), "run");
  EXPECT_TRUE(first.remove_unused(exit_code::kUsage));
  EXPECT_TRUE(fs::is_empty(output));
}

TEST_F(RunDirTest, AJobStoppedByAnySignalLeavesNothingButACheckpoint) {
  EXPECT_TRUE(
      RunDir::choose(job(), 1, "a").remove_unused(exit_code::of_signal(1), RunState::stopped));
  RunDir run = RunDir::choose(job(), 1, "a");
  fs::create_directories(run.path() / "checkpoints/step-000001");
  EXPECT_FALSE(run.remove_unused(exit_code::kUsage));
  EXPECT_TRUE(fs::exists(run.path() / "checkpoints/step-000001"));
}

TEST_F(RunDirTest, FilesOfAProgramInPlaceOfDdpWorkerStay) {
  const std::vector<std::string> own{"launch.program=./tiny"};
  RunDir first = RunDir::choose(job(own), 2, "a");
  std::ofstream(first.path() / "events.out.tfevents.1.node") << "";
  EXPECT_TRUE(first.remove_unused(exit_code::kUsage));
  RunDir second = RunDir::choose(job(own), 2, "a");
  std::ofstream(second.path() / "vocabulary.txt") << "a b c\n";
  EXPECT_FALSE(second.remove_unused(exit_code::kUsage));
  EXPECT_TRUE(fs::exists(second.path() / "vocabulary.txt"));
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

TEST_F(RunDirTest, ARunOfAnotherNameThatEndsInANumberIsNoRunOfThisName) {
  { const RunDir mine = RunDir::choose(job({"name=exp"}), 1, "a"); }
  { const RunDir other = RunDir::choose(job({"name=exp2"}), 1, "b"); }
  const RunDir again = RunDir::choose(job({"name=exp", "optimizer.lr=0.1"}), 1, "c");
  EXPECT_EQ(again.path(), folder_ / "exp3");
  EXPECT_THAT(again.notice(), HasSubstr("/exp is not continued: optimizer.lr was 0.05"));
}

TEST_F(RunDirTest, NumbersOfOtherNamesDoNotCount) {
  const RunDir living = RunDir::choose(job({"name=b34"}), 1, "a");
  EXPECT_EQ(RunDir::choose(job({"name=b"}), 1, "b").notice(),
            "new run directory " + (folder_ / "b").string());
  EXPECT_EQ(RunDir::choose(job({"name=b", "optimizer.lr=0.1"}), 1, "c").path(), folder_ / "b2");
  EXPECT_EQ(RunDir::choose(job({"name=b", "optimizer.lr=0.2"}), 1, "d").path(), folder_ / "b3");
}

TEST_F(RunDirTest, ANumberThatLeavesNoHigherOneBlocksNothing) {
  replace_file(folder_ / "run999999", "");
  EXPECT_EQ(RunDir::choose(job(), 1, "a").path(), folder_ / "run");
}

TEST_F(RunDirTest, AFileCalledLatestStays) {
  replace_file(folder_ / "latest", "mine");
  const RunDir run = RunDir::choose(job(), 1, "a");
  EXPECT_EQ(read_file(folder_ / "latest"), "mine");
}

TEST_F(RunDirTest, AnotherWholeBatchIsAnotherJob) {
  { const RunDir first = RunDir::choose(job(), 2, "a"); }
  const RunDir other = RunDir::choose(job({"data.batch_per_rank=32"}), 2, "b");
  EXPECT_FALSE(other.continues());
  EXPECT_THAT(other.notice(), HasSubstr("the whole batch was 128"));
}

TEST_F(RunDirTest, ARunKeepsItsBatchOnAnyNumberOfRanks) {
  { const RunDir first = RunDir::choose(job(), 2, "a"); }
  { EXPECT_TRUE(RunDir::choose(job(), 3, "the same job on three ranks").continues()); }
  const std::vector<std::string> in_other_words{"data.batch_per_rank=null", "data.batch=192"};
  EXPECT_TRUE(RunDir::choose(job(in_other_words), 1, "the same whole batch").continues());
}

TEST_F(RunDirTest, AFinishedRunIsNotContinued) {
  {
    const RunDir first = RunDir::choose(job(), 1, "a");
    write_result(first.directory(), 0, "");
  }
  const RunDir second = RunDir::choose(job(), 1, "b");
  EXPECT_EQ(second.path(), folder_ / "run2");
  EXPECT_THAT(second.notice(), HasSubstr("run is not continued: it is finished)"));
}

TEST_F(RunDirTest, AFinishedRunIsContinuedByTheSameJobWithMoreToDo) {
  const auto run_to_end = [&](const std::vector<std::string>& more) {
    const RunDir run = RunDir::choose(job(more), 1, "a");
    write_result(run.directory(), 0, "");
    return run.notice();
  };
  (void)run_to_end({"train.epochs=3", "train.max_steps=50"});
  EXPECT_THAT(run_to_end({"train.epochs=5", "train.max_steps=50"}),
              HasSubstr("continues the finished run in " + (folder_ / "run").string() +
                        ": train.epochs was 3, is 5"));
  EXPECT_THAT(run_to_end({"train.epochs=5", "train.max_steps=60"}),
              HasSubstr(": train.max_steps was 50, is 60"));
  EXPECT_THAT(run_to_end({"train.epochs=5"}), HasSubstr(": train.max_steps was 60, is null"));
  // Less, both ways, another job, or a new start: a new run.
  const std::vector<std::vector<std::string>> others{
      {"train.epochs=5"},
      {"train.epochs=4"},
      {"train.epochs=9", "train.max_steps=9"},
      {"train.epochs=9", "optimizer.lr=0.1"},
      {"train.epochs=9", kNever},
  };
  for (const std::vector<std::string>& other : others) {
    const RunDir run = RunDir::choose(job(other), 1, "b");
    EXPECT_THAT(run.notice(), HasSubstr("new run directory " + (folder_ / "run2").string()));
    fs::remove_all(run.path());
  }
}

TEST_F(RunDirTest, AnOlderUnfinishedRunIsFoundBehindOthers) {
  { const RunDir first = RunDir::choose(job(), 1, "a"); }
  {
    const RunDir other = RunDir::choose(job({"optimizer.lr=0.1"}), 1, "b");
    write_result(other.directory(), 0, "");
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
    write_result(first.directory(), 137, "\"decided_by\":\"worker\"");
    EXPECT_THAT(read_file(first.path() / "result.json").value(),
                HasSubstr("\"state\":\"failed\",\"exit_code\":137"));
  }
  EXPECT_TRUE(RunDir::choose(job(), 1, "b").continues());
}

TEST_F(RunDirTest, TheBatchStaysThatOfTheFirstRoundOnOtherRanks) {
  {
    const RunDir first = RunDir::choose(job(), 2, "a");
    replace_file(first.path() / "batch.json", R"({"whole":128,"per_rank":64,"world_size":2})");
    write_result(first.directory(), 137, "");
  }
  for (const int ranks : {1, 4, 1}) {
    const RunDir again = RunDir::choose(job(), ranks, "b");
    EXPECT_TRUE(again.continues()) << again.notice();
    write_result(again.directory(), 137, "");
    EXPECT_THAT(read_file(again.path() / "result.json").value(), HasSubstr("\"batch\":128"));
  }
  // In the words of the job the whole batch is another one, in numbers it is not.
  EXPECT_TRUE(
      RunDir::choose(job({"data.batch_per_rank=null", "data.batch=128"}), 1, "c").continues());
}

TEST_F(RunDirTest, TheTimeOfEarlierStartsIsKept) {
  for (const char* const earlier :
       {"", ",\"earlier_seconds\":7.500", ",\"earlier_seconds\":15.000"}) {
    const RunDir run = RunDir::choose(job(), 1, "a");
    write_result(run.directory(), 143, "\"seconds\":7.5");
    EXPECT_THAT(read_file(run.path() / "result.json").value(),
                HasSubstr("\"batch\":64" + std::string(earlier) + ",\"seconds\":7.5"));
  }
}

TEST_F(RunDirTest, ALauncherKnowsBetterThanTheCodeWhatStateItIs) {
  const RunDir run = RunDir::choose(job(), 1, "a");
  write_result(run.directory(), 129, "", RunState::stopped);
  EXPECT_THAT(read_file(run.path() / "result.json").value(), HasSubstr("\"state\":\"stopped\""));
  write_result(run.directory(), 130, "", RunState::failed);
  EXPECT_THAT(read_file(run.path() / "result.json").value(), HasSubstr("\"state\":\"failed\""));
  write_result(run.directory(), 130, "");
  EXPECT_THAT(read_file(run.path() / "result.json").value(), HasSubstr("\"state\":\"stopped\""));
}

TEST_F(RunDirTest, ALivingRunIsLeftAlone) {
  const RunDir first = RunDir::choose(job(), 1, "a");
  const RunDir second = RunDir::choose(job(), 1, "b");
  EXPECT_EQ(second.path(), folder_ / "run2");
  EXPECT_THAT(second.notice(), HasSubstr("still running"));
}

TEST_F(RunDirTest, NeverOrACheckpointOfTheUsersChoiceStartsANewDirectory) {
  { const RunDir first = RunDir::choose(job(), 1, "a"); }
  for (const char* const start : {kNever, kPath}) {
    const RunDir run = RunDir::choose(job({start}), 1, "b");
    EXPECT_FALSE(run.continues());
    EXPECT_THAT(run.notice(), HasSubstr("checkpoint.resume was "));
  }
}

TEST_F(RunDirTest, ARunThatBeganSoAndWasInterruptedIsContinuedByTheSameCommand) {
  for (const std::string& start : {std::string(kNever), std::string(kPath)}) {
    { const RunDir first = RunDir::choose(job({start}), 1, "a"); }
    const RunDir again = RunDir::choose(job({start}), 1, "b");
    EXPECT_EQ(again.path(), folder_ / "run");
    EXPECT_THAT(again.notice(), HasSubstr("continues the unfinished run in "));
    EXPECT_THAT(again.notice(), HasSubstr("; " + start + " was its start"));
    fs::remove_all(again.path());
  }
}

TEST_F(RunDirTest, RunResumedFromAPathContinuesOnlyFromItsOwnCheckpoints) {
  { const RunDir first = RunDir::choose(job({kPath}), 1, "a"); }
  {
    const RunDir plain = RunDir::choose(job(), 1, "b");
    EXPECT_THAT(plain.notice(), HasSubstr("/run is not continued: checkpoint.resume was runs/x/"));
    write_result(plain.directory(), 0, "");
  }
  fs::create_directories(folder_ / "run/checkpoints/step-000002");
  EXPECT_EQ(RunDir::choose(job(), 1, "c").path(), folder_ / "run");
  // It is still the run of anyone who began it.
  EXPECT_EQ(RunDir::choose(job({kPath}), 1, "d").path(), folder_ / "run");
}

TEST_F(RunDirTest, AProgramWithoutAJobFileGetsANewDirectoryEachTime) {
  const JobOverride never{"checkpoint.resume", "never", "default"};
  const JobOverride output{"output", folder_.string(), "test"};
  const JobOverride batch{"data.batch_per_rank", "1", "default"};
  const JobValues unknown = resolve_job(nullptr, std::vector<JobOverride>{never, output, batch});
  { const RunDir first = RunDir::choose(unknown, 1, "a"); }
  EXPECT_FALSE(RunDir::choose(unknown, 1, "a").continues());
}

TEST_F(RunDirTest, AnOutputThatCannotBeMadeIsNamed) {
  const fs::path file = folder_ / "file";
  replace_file(file, "x");
  try {
    RunDir::choose(job({"output=" + (file / "below").string()}), 1, "a");
    FAIL() << "a file is not a directory";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                StartsWith("output: cannot make the output directory, " + file.string()));
  }
}

TEST_F(RunDirTest, AFullDiskLeavesNothing) {
  const fs::path small = folder_ / "small";
  fs::create_directory(small);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64k,nr_inodes=3") != 0)
    GTEST_SKIP() << "needs the right to mount a small file system";
  try {
    RunDir::choose(job({"output=" + (small / "runs").string()}), 1, "a");
    FAIL() << "there is room for a directory and the run in it, and for nothing else";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Set output= to a directory that can be written"));
  }
  EXPECT_TRUE(fs::is_empty(small));
  EXPECT_EQ(::umount(small.c_str()), 0);
}

TEST_F(RunDirTest, ARunThatOthersCanWriteIsContinuedOnceTheyCannot) {
  { const RunDir first = RunDir::choose(job(), 1, "a"); }
  fs::permissions(folder_ / "run", fs::perms::group_write, fs::perm_options::add);
  EXPECT_THAT(RunDir::choose(job(), 1, "b").notice(),
              HasSubstr("run is not continued: others can write to it; type chmod -R go-w " +
                        (folder_ / "run").string()));
  fs::permissions(folder_ / "run", fs::perms::group_write, fs::perm_options::remove);
  fs::permissions(folder_ / "run/job.yaml", fs::perms::group_write, fs::perm_options::add);
  fs::remove_all(folder_ / "run2");
  EXPECT_THAT(RunDir::choose(job(), 1, "c").notice(),
              HasSubstr("run is not continued: job.yaml: others can write to it"));
  fs::permissions(folder_ / "run/job.yaml", fs::perms::group_write, fs::perm_options::remove);
  fs::remove_all(folder_ / "run2");
  EXPECT_TRUE(RunDir::choose(job(), 1, "d").continues());
}

TEST_F(RunDirTest, LinksInTheRunAreNotFollowed) {
  const fs::path outside = folder_ / "outside";
  for (const char* const name : {".lock", "logs", "checkpoints", "metrics.jsonl"}) {
    { const RunDir first = RunDir::choose(job(), 1, "a"); }
    fs::remove(folder_ / "run" / name);
    fs::create_symlink(outside, folder_ / "run" / name);
    EXPECT_THAT(RunDir::choose(job(), 1, "b").notice(),
                HasSubstr("run is not continued: " + std::string(name) + ": it is a link"));
    fs::remove_all(folder_ / "run");
    fs::remove_all(folder_ / "run2");
  }
  EXPECT_FALSE(fs::exists(outside));
}

TEST_F(RunDirTest, ALongValueOfAnOldJobIsShownInOneShortLine) {
  const std::string weights = "model.weights=" + std::string(9999, 'x');
  { const RunDir first = RunDir::choose(job({weights}), 1, "a"); }
  const std::string notice = RunDir::choose(job(), 1, "b").notice();
  EXPECT_THAT(notice, HasSubstr("model.weights was xxx"));
  EXPECT_LT(notice.size(), 500U);
}

// Others own the output, or may make things in it, as in /tmp.
class SharedOutput : public RunDirTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
    fs::permissions(folder_, fs::perms::all | fs::perms::sticky_bit);
    scratch_.write("private", "mine");
    fs::permissions(folder_ / "private", fs::perms::owner_read | fs::perms::owner_write);
  }

  /// As the other user: a run that looks like ours, and is full of links.
  [[nodiscard]] bool plant(const fs::path& run) const {
    const std::string text = to_yaml(job());
    return test::as_other_user([&] {
             fs::create_directories(run / "logs/round-0");
             std::ofstream(run / "job.yaml") << text;
             std::ofstream(run / "result.json") << "{\"state\":\"failed\",\"batch\":64}";
             fs::create_symlink(folder_ / "made", run / ".lock");
             fs::create_symlink(folder_ / "private", run / "logs/round-0/rank-0.err");
             const std::string pid = std::to_string(::getppid());
             for (const char* const name : {"job.yaml", "command.txt", "result.json"})
               fs::create_symlink(folder_ / "private", run / (name + (".tmp-" + pid)));
             fs::permissions(run, fs::perms::all);
             return 0;
           }) == 0;
  }
};

TEST_F(SharedOutput, A1_ARunThatAnotherPreparedIsNotContinued) {
  ASSERT_TRUE(plant(folder_ / "run"));
  const RunDir run = RunDir::choose(job(), 1, "a");
  EXPECT_FALSE(run.continues());
  EXPECT_EQ(run.path(), folder_ / "run2");
  EXPECT_THAT(run.notice(), HasSubstr("run is not continued: it belongs to user 65534)"));
  EXPECT_EQ(scratch_.read("private"), "mine");
  EXPECT_FALSE(fs::exists(folder_ / "made"));
}

TEST_F(SharedOutput, A1_AUserWhoRenamesARunGetsNothingOfIt) {
  fs::permissions(folder_, fs::perms::all);  // no sticky bit: he may
  const RunDir run = RunDir::choose(job(), 1, "a");
  ASSERT_EQ(test::as_other_user([&] {
              fs::rename(folder_ / "run", folder_ / "away");
              return 0;
            }),
            0);
  ASSERT_TRUE(plant(folder_ / "run"));
  ASSERT_EQ(test::as_other_user([&] {
              fs::remove(folder_ / "run/result.json");
              fs::create_symlink(folder_ / "private", folder_ / "run/result.json");
              return 0;
            }),
            0);
  write_result(run.directory(), 137, "");
  EXPECT_EQ(scratch_.read("private"), "mine");
  EXPECT_TRUE(fs::is_symlink(folder_ / "run/result.json"));
  EXPECT_THAT(scratch_.read("away/result.json"), HasSubstr("\"exit_code\":137"));
}

TEST_F(SharedOutput, A1_ALinkToTheNewestRunOfAnotherIsNamed) {
  fs::create_symlink("nowhere", folder_ / "latest");
  const auto tell = [&] {
    try {
      const RunDir run = RunDir::choose(job(), 1, "a");
      std::ofstream(folder_ / "said") << run.notice();
      return 0;
    } catch (const std::exception&) {
      return 1;
    }
  };
  ASSERT_EQ(test::as_other_user(tell), 0);
  EXPECT_THAT(scratch_.read("said"),
              HasSubstr("; " + (folder_ / "latest").string() +
                        " does not lead there: it belongs to user 0"));
  EXPECT_EQ(fs::read_symlink(folder_ / "latest"), "nowhere");
}

TEST_F(SharedOutput, A1_TheLinkToTheNewestRunOfAnotherIsNotFollowed) {
  ASSERT_EQ(test::as_other_user([&] {
              fs::create_symlink(folder_ / "private", folder_ / "latest");
              return 0;
            }),
            0);
  RunDir run = RunDir::choose(job(), 1, "a");
  EXPECT_TRUE(run.remove_unused(exit_code::kUsage));
  EXPECT_EQ(scratch_.read("private"), "mine");
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_))
    names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, ::testing::IsSubsetOf({"private", "latest"}));  // nothing else stays
}

}  // namespace
}  // namespace ddp
