// Others on the node, and the files of a job: what they prepare, what they swap, what they may
// read. Rows A1 and A8 of CASES.md.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/other_user.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kJob = "data: {batch_per_rank: 8}\nlaunch: {nproc_per_node: 1}\n";

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

class RunDirFaults : public ProcessTest {
 protected:
  [[nodiscard]] fs::path runs() const { return scratch() / "runs"; }
  [[nodiscard]] fs::path hidden() const { return scratch() / "private"; }

  /// An output in which everybody may do everything, and a file that is ours.
  void share_output() {
    ASSERT_EQ(::chmod(scratch().c_str(), 0755), 0);
    fs::create_directory(runs());
    ASSERT_EQ(::chown(runs().c_str(), kOtherUser, kOtherUser), 0);
    ASSERT_EQ(::chmod(runs().c_str(), 0777), 0);
    write_file("private", "mine\n");
    ASSERT_EQ(::chmod(hidden().c_str(), 0600), 0);
  }

  /// A job whose worker prints its arguments and ends.
  std::unique_ptr<Running> launch_job(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{write_file("job.yaml", kJob),
                                       "output=" + runs().string(),
                                       std::string("launch.program=") + DDP_FAKE_WORKER};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return launch(std::move(arguments));
  }

  /// All that is in the directory of the only run, one mode for a line.
  [[nodiscard]] std::string modes(const fs::path& run, mode_t forbidden) const {
    std::string wide;
    if ((mode_of(run) & forbidden) != 0) wide += run.string() + "\n";
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(run)) {
      if (!entry.is_symlink() && (mode_of(entry.path()) & forbidden) != 0)
        wide += entry.path().string() + "\n";
    }
    return wide;
  }
};

TEST_F(RunDirFaults, A1_ARunThatAnotherPreparedGetsNotAByte) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  share_output();
  ASSERT_EQ(launch_job()->wait(), 0);
  const std::string job = read_all(runs() / "run/job.yaml");
  fs::remove_all(runs() / "run");
  ASSERT_EQ(as_other_user([&] {
              const fs::path run = runs() / "run";
              fs::create_directories(run / "logs/round-0");
              std::ofstream(run / "job.yaml") << job;
              std::ofstream(run / "result.json") << "{\"state\":\"failed\",\"batch\":8}";
              fs::create_symlink(scratch() / "made", run / ".lock");
              for (const char* const name : {"rank-0.out", "rank-0.err"})
                fs::create_symlink(hidden(), run / "logs/round-0" / name);
              for (const char* const part : {"", "logs", "logs/round-0"})
                fs::permissions(run / part, fs::perms::all);
              return 0;
            }),
            0);
  const auto again = launch_job();
  EXPECT_EQ(again->wait(), 0);
  EXPECT_THAT(
      again->err(),
      HasSubstr("new run directory " + (runs() / "run2").string() + " (" +
                (runs() / "run").string() + " is not continued: it belongs to user 65534)"));
  EXPECT_EQ(read_all(hidden()), "mine\n");
  EXPECT_FALSE(fs::exists(scratch() / "made"));
  EXPECT_NE(read_all(runs() / "run2/logs/round-0/rank-0.out"), "");
}

TEST_F(RunDirFaults, A1_ARunThatIsSwappedWhileItRunsIsWrittenToAllTheSame) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  share_output();
  const auto job = launch({"--output",
                           runs().string(),
                           "--max-restarts=1",
                           DDP_FAKE_WORKER,
                           "pid",
                           "print",
                           "begun",
                           "wait",
                           "USR1",
                           "print",
                           "later",
                           "exit",
                           "3"});
  ASSERT_TRUE(job->sees("begun"));
  const fs::path run = runs() / "fake_worker";
  ASSERT_EQ(as_other_user([&] {
              fs::rename(run, runs() / "away");
              for (const char* const round : {"round-0", "round-1"}) {
                fs::create_directories(run / "logs" / round);
                fs::permissions(run / "logs" / round, fs::perms::all);
                for (const char* const name : {"rank-0.out", "rank-0.err"})
                  fs::create_symlink(hidden(), run / "logs" / round / name);
              }
              fs::create_symlink(hidden(), run / "result.json");
              return 0;
            }),
            0);
  const int first = job->number_after("pid ");
  send_signal(first, SIGUSR1);
  ASSERT_TRUE(eventually(
      [&] {
        job->read_for(std::chrono::milliseconds(5));
        return count(job->out(), "begun") == 2;
      },
      kTestTimeout));
  send_signal(std::stoi(job->out().substr(job->out().rfind("pid ") + 4)), SIGUSR1);
  EXPECT_EQ(job->wait(), 3);
  EXPECT_EQ(read_all(hidden()), "mine\n");
  EXPECT_TRUE(fs::is_symlink(run / "result.json"));
  EXPECT_THAT(read_all(runs() / "away/logs/round-0/rank-0.out"), HasSubstr("later\n"));
  EXPECT_THAT(read_all(runs() / "away/logs/round-1/rank-0.out"), HasSubstr("later\n"));
  EXPECT_THAT(read_all(runs() / "away/result.json"), HasSubstr("\"exit_code\":3"));
}

TEST_F(RunDirFaults, A1_ALogDirectoryThatIsSwappedIsWrittenToAllTheSame) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  share_output();
  const auto job = launch({"--log-dir",
                           runs().string(),
                           "--redirects=3",
                           "--rdzv-id=id",
                           DDP_FAKE_WORKER,
                           "pid",
                           "wait",
                           "USR1",
                           "print",
                           "later",
                           "exit",
                           "3"});
  ASSERT_TRUE(job->sees("logs in "));
  ASSERT_TRUE(eventually(
      [&] {
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(runs())) {
          if (entry.path().filename() == "stdout.log" && read_all(entry).ends_with("\n"))
            return true;
        }
        return false;
      },
      kTestTimeout));
  const fs::path own = fs::directory_iterator(runs())->path();
  ASSERT_EQ(as_other_user([&] {
              fs::rename(own, runs() / "away");
              fs::create_directory(own);
              fs::create_symlink(hidden(), own / "result.json");
              return 0;
            }),
            0);
  const std::string text = read_all(runs() / "away/attempt_0/0/stdout.log");
  send_signal(std::stoi(text.substr(text.find("pid ") + 4)), SIGUSR1);
  EXPECT_EQ(job->wait(), 3);
  EXPECT_EQ(read_all(hidden()), "mine\n");
  EXPECT_THAT(read_all(runs() / "away/attempt_0/0/stdout.log"), HasSubstr("later\n"));
  EXPECT_THAT(read_all(runs() / "away/result.json"), HasSubstr("\"exit_code\":3"));
}

TEST_F(RunDirFaults, A1_RunIsContinuedWhereEveryFileHasOneOwner) {
  if (kInstrumented)
    GTEST_SKIP() << "needs a build without a sanitizer, before which nothing loads";
  const auto launch_there = [this] {
    return start(Command{
        .arguments = {DDP_DYNAMIC_LAUNCH,
                      write_file("job.yaml", kJob),
                      "output=" + runs().string(),
                      std::string("launch.program=") + DDP_FAKE_WORKER},
        .environment = {{"LD_PRELOAD", DDP_ONE_OWNER}, {"DDP_ONE_OWNER_IN", runs().string()}}});
  };
  EXPECT_EQ(launch_there()->wait(), 0);
  // As after a crash.
  std::ofstream(runs() / "run/result.json") << "{\"state\":\"running\",\"batch\":8}";
  const auto again = launch_there();
  EXPECT_EQ(again->wait(), 0);
  EXPECT_THAT(again->err(), HasSubstr("continues the unfinished run in "));
  EXPECT_EQ(lines_of(read_all(runs() / "run/logs/round-0/rank-0.out")).size(), 2U);
}

TEST_F(RunDirFaults, RunDirIsRemovedAfterAWorkerRefusesBeforeOpeningItsPage) {
  const std::string program =
      write_file("ddp-worker", "#!/bin/sh\n[ $RANK = 0 ] && exit 2\nsleep 60\n");
  fs::permissions(program, fs::perms::owner_all);
  const auto job = launch_job(
      {"launch.program=" + program, "launch.nproc_per_node=2", "launch.warm_start=false"});
  EXPECT_EQ(job->wait(), 2);
  EXPECT_THAT(job->err(), HasSubstr("no step was made: removed " + (runs() / "run").string()));
  EXPECT_FALSE(fs::exists(runs()));
}

TEST_F(RunDirFaults, A8_FilesOfARunAreNeverWiderThanForTheGroupToRead) {
  const mode_t before = ::umask(0);
  EXPECT_EQ(launch_job()->wait(), 0);
  ::umask(before);
  EXPECT_EQ(modes(runs() / "run", 0027), "");
  EXPECT_EQ(mode_of(runs() / "run/logs/round-0/rank-0.out"), 0640U);
  const mode_t strict = ::umask(077);
  EXPECT_EQ(launch_job({"name=strict"})->wait(), 0);
  ::umask(strict);
  EXPECT_EQ(modes(runs() / "strict", 0077), "");
}

TEST_F(RunDirFaults, A8_ValuesOfLaunchEnvAreNeitherPrintedNorStored) {
  const std::string secret = "s3cr3t-of-the-user";
  // It has them, and fails: so the report tells how to start it again.
  const std::string program = write_file(
      "program",
      "#!/bin/sh\n[ \"$FROM_FILE$TYPED\" = " + secret + "-1" + secret + "-2 ] && exit 3\n");
  fs::permissions(program, fs::perms::owner_all);
  const std::vector<std::string> job{
      write_file("secret.yaml",
                 "data: {batch_per_rank: 8}\noutput: " + runs().string() +
                     "\nlaunch: {env: {FROM_FILE: " + secret + "-1}, program: " + program + "}\n"),
      "launch.env.TYPED=" + secret + "-2"};
  for (const std::string& flag : {std::string("--dry-run"), std::string("--explain=launch.env")}) {
    std::vector<std::string> arguments = job;
    arguments.insert(arguments.begin(), flag);
    const auto shown = launch(arguments);
    EXPECT_EQ(shown->wait(), 0);
    EXPECT_THAT(shown->out(), AllOf(HasSubstr("FROM_FILE"), HasSubstr("TYPED"))) << flag;
    EXPECT_THAT(shown->out() + shown->err(), Not(HasSubstr(secret))) << flag;
  }
  const auto run = launch(job);
  EXPECT_EQ(run->wait(), 3);
  EXPECT_THAT(run->err(), AllOf(HasSubstr("'FROM_FILE=***'"), HasSubstr("'TYPED=***'")));
  EXPECT_THAT(run->out() + run->err(), Not(HasSubstr(secret)));
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(runs())) {
    EXPECT_THAT(entry.is_regular_file() ? read_all(entry) : "", Not(HasSubstr(secret))) << entry;
  }
  EXPECT_THAT(read_all(runs() / "run/job.yaml"), HasSubstr("TYPED: \"***\""));
  EXPECT_THAT(read_all(runs() / "run/command.txt"), HasSubstr("launch.env.TYPED=***"));
  // A secret that has changed does not make another job.
  std::vector<std::string> changed = job;
  changed.back() = "launch.env.TYPED=another";
  const auto again = launch(changed);
  EXPECT_EQ(again->wait(), 1);
  EXPECT_THAT(again->err(), HasSubstr("continues the unfinished run"));
}

TEST_F(RunDirFaults, A8_AMaskedValueIsNotTakenForTheValue) {
  const auto job = launch_job({"launch.env.KEY=***"});
  EXPECT_EQ(job->wait(), 2);
  EXPECT_THAT(job->err(), HasSubstr("KEY: *** stands for a value that was not written down"));
}

}  // namespace
}  // namespace ddp::test
