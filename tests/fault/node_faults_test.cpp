// What the node does to workers, and what only the node can end: its memory, its limits, its
// cgroups. Rows W, L and S of CASES.md.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/node/environment.h"
#include "launcher/plan/start/cgroups.h"
#include "tests/support/cgroup.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class NodeFaults : public ProcessTest {};

TEST_F(NodeFaults, W1_ACoreFileIsNamed) {
  if (kInstrumented) GTEST_SKIP() << "a sanitizer changes what the kernel does here";
  const auto job = start(Command{.arguments = {"/bin/sh",
                                               "-c",
                                               "cd \"$0\" && ulimit -c unlimited && exec \"$@\"",
                                               scratch().string(),
                                               DDP_LAUNCH,
                                               DDP_FAKE_WORKER,
                                               "raise",
                                               "SEGV"},
                                 .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
  EXPECT_EQ(job->wait(), 139);
  const std::string pattern = read_file("/proc/sys/kernel/core_pattern").value_or("");
  if (pattern.starts_with('|')) {
    EXPECT_THAT(job->err(), HasSubstr("  found     : core dump handed to "));
  } else {
    const std::size_t at = job->err().find("core file: ");
    ASSERT_NE(at, std::string::npos) << job->err();
    const std::string rest = job->err().substr(at + 11);
    EXPECT_TRUE(std::filesystem::exists(rest.substr(0, rest.find('\n')))) << rest;
  }
}

TEST_F(NodeFaults, W1_AForbiddenCoreFileIsAHint) {
  const auto job = start(Command{.arguments = {"/bin/sh",
                                               "-c",
                                               "ulimit -c 0 && exec \"$@\"",
                                               "sh",
                                               DDP_LAUNCH,
                                               DDP_FAKE_WORKER,
                                               "raise",
                                               "ABRT"},
                                 .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
  EXPECT_EQ(job->wait(), 134);
  EXPECT_THAT(job->err(),
              HasSubstr("no core file: the limit is 0. Allow one: ulimit -c unlimited"));
}

TEST_F(NodeFaults, W2_AKillForLackOfMemoryIsNamed) {
  if (kInstrumented) GTEST_SKIP() << "a sanitizer changes what the kernel does here";
  const TestCgroup cgroup("memory");
  if (!cgroup.is_there()) GTEST_SKIP() << "needs a cgroup with the memory controller of its own";
  cgroup.set("memory.limit_in_bytes", "64M");  // v1
  cgroup.set("memory.max", "64M");             // v2
  cgroup.set("memory.swap.max", "0");
  const auto job = start(launch_inside(
      cgroup,
      scratch(),
      {"--nproc-per-node=2", DDP_FAKE_WORKER, "on", "1", "[", "fill", "500000000", "]", "hold"}));
  EXPECT_EQ(job->wait(), 137);
  EXPECT_THAT(job->err(), HasSubstr("  rank      : 1 "));
  EXPECT_THAT(job->err(), HasSubstr(" for lack of memory"));
  EXPECT_TRUE(nothing_lives_within(kTestTimeout));
}

TEST_F(NodeFaults, S2_TheProcessLimitOfACgroupIsSeenBeforeAnythingStarts) {
  if (kInstrumented) GTEST_SKIP() << "a sanitizer changes what the kernel does here";
  const TestCgroup cgroup("pids");
  if (!cgroup.is_there()) GTEST_SKIP() << "needs a cgroup with the pids controller of its own";
  cgroup.set("pids.max", "5");
  const auto refused = start(
      launch_inside(cgroup, scratch(), {"--nproc-per-node=2", DDP_FAKE_WORKER, "print", "on"}));
  EXPECT_EQ(refused->wait(), 126);
  EXPECT_THAT(refused->err(),
              HasSubstr("this needs 5 processes and threads, 4 are left: pids.max"));
  EXPECT_EQ(refused->out(), "");
  cgroup.set("pids.max", "6");
  const auto started = start(
      launch_inside(cgroup, scratch(), {"--nproc-per-node=2", DDP_FAKE_WORKER, "print", "on"}));
  EXPECT_EQ(started->wait(), 0);
}

/// A worker that starts what neither session nor environment tells to be ours.
const char* const kHider = "env -i setsid \"$0\" pid hold & wait";

// The guard alone cannot find it: only the cgroup proves it ours.
TEST_F(NodeFaults, L1_AHiddenDaemonDiesByTheCgroupWhenTheLauncherIsKilled) {
  const auto job = launch({"-v", "/bin/sh", "-c", kHider, DDP_FAKE_WORKER});
  ASSERT_TRUE(job->sees("[0:0] pid ") && job->sees("supervision: "));
  const pid_t pid = job->number_after("[0:0] pid ");
  EXPECT_NE(state_of(pid), "");
  if (job->err().find("no cgroup") != std::string::npos) {
    job->signal(SIGTERM);
    job->wait();
    GTEST_SKIP() << "needs a delegated cgroup v2";
  }
  const std::size_t at = job->err().find("cgroup /") + 7;
  const std::string cgroup = job->err().substr(at, job->err().find('\n', at) - at);
  EXPECT_TRUE(std::filesystem::exists(cgroup)) << cgroup;
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  // Init may let its zombie stand for a while.
  EXPECT_TRUE(eventually([&] { return state_of(pid).empty() || state_of(pid) == "Z"; }, 2s));
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(cgroup); }, 2s)) << cgroup;
  EXPECT_TRUE(nothing_lives_within(2s)) << testing::PrintToString(alive());  // the guard
}

TEST_F(NodeFaults, W11_AHiddenDaemonEndsWithItsJob) {
  const auto job = launch({"/bin/sh", "-c", kHider, DDP_FAKE_WORKER});
  const pid_t pid = job->number_after("[0:0] pid ");
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_EQ(state_of(pid), "");
}

TEST_F(NodeFaults, W12_AForkBombEndsWithItsJob) {
  const TestCgroup cgroup("pids");
  if (!cgroup.is_there()) GTEST_SKIP() << "needs a cgroup with the pids controller of its own";
  cgroup.set("pids.max", "200");
  const auto job = start(launch_inside(
      cgroup, scratch(), {"--grace=100ms", DDP_FAKE_WORKER, "print", "ready", "bomb"}));
  ASSERT_TRUE(job->sees("ready"));
  EXPECT_TRUE(eventually([&] { return alive().size() > 100; }, kTestTimeout));
  // The agent still answers.
  const auto status = start(Command{.arguments = {DDP_LAUNCH, "status"},
                                    .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
  EXPECT_EQ(status->wait(), 0);
  EXPECT_LT(status->lived(), allowed(2s));
  EXPECT_THAT(status->out(), HasSubstr("round 0"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_TRUE(nothing_lives_within(1s));
}

// Frozen by the v1 freezer, which not even SIGKILL gets through, as nothing gets to who waits for a
// dead network disk.
TEST_F(NodeFaults, W10_AProcessThatCannotBeKilledIsNamed) {
  const TestCgroup cgroup("freezer");
  if (!cgroup.has("freezer.state")) GTEST_SKIP() << "needs a cgroup v1 freezer of its own";
  // One has a worker, the other a daemon that cannot be killed.
  const auto job = launch_fakes(2, "on 0 [ pid hold ] on 1 [ print ready wait USR1 exit 7 ]");
  const auto good = launch_fakes(1, "lose [ pid hold ] wait USR1");
  ASSERT_TRUE(job->sees("pid ") && job->sees("ready") && good->sees("pid "));
  const std::vector<int> frozen{job->number_after("[0:0] pid "), good->number_after("[0:0] pid ")};
  for (const int pid : frozen)
    cgroup.set("cgroup.procs", std::to_string(pid));
  cgroup.set("freezer.state", "FROZEN");
  for (const int pid : frozen)
    ASSERT_TRUE(eventually([&] { return state_of(pid) == "D"; }, kTestTimeout)) << state_of(pid);
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& process : alive()) {
    const int pid = std::atoi(process.c_str());
    const bool is_ours =
        process.find("ddp-launch") != std::string::npos || pid == frozen[0] || pid == frozen[1];
    if (!is_ours) send_signal(pid, SIGUSR1);
  }
  EXPECT_EQ(job->wait(), 7);
  EXPECT_EQ(good->wait(), 125);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, allowed(2s + 10s + 500ms));
  const std::string left = "could not be killed and is left: pid ";
  EXPECT_THAT(job->err(),
              testing::ContainsRegex(left + std::to_string(frozen[0]) +
                                     " \\(fake_worker, state D, in [a-z_]+\\)"));
  EXPECT_THAT(good->err(),
              testing::ContainsRegex(left + std::to_string(frozen[1]) +
                                     " \\(fake_worker, state D, in [a-z_]+\\)"));
  EXPECT_THAT(job->err(), HasSubstr("its stdout is cut here: it could not be killed."));
  cgroup.set("freezer.state", "THAWED");
  EXPECT_TRUE(nothing_lives_within(kTestTimeout));  // they die of what they were sent
}

// Its end is told to the debugger first, which sits at its prompt.
TEST_F(NodeFaults, W10_ADebuggerThatHoldsAWorkerDoesNotHoldTheAgent) {
  // A runtime directory of its own: `status` asks every job there, and is to wait for no other.
  const std::map<std::string, std::string> runtime{{"XDG_RUNTIME_DIR", scratch().string()}};
  const auto job = start(Command{.arguments = {DDP_LAUNCH,
                                               "--nproc-per-node=2",
                                               "--grace=200ms",
                                               DDP_FAKE_WORKER,
                                               "pid",
                                               "on",
                                               "1",
                                               "[",
                                               "wait",
                                               "USR1",
                                               "exit",
                                               "7",
                                               "]",
                                               "hold"},
                                 .environment = runtime});
  const int pid = job->number_after("[0:0] pid ");
  const int failing = job->number_after("[0:1] pid ");
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, pid, 0, 0), 0) << std::strerror(errno);
  send_signal(failing, SIGUSR1);
  ASSERT_TRUE(job->sees("has failed"));
  ASSERT_TRUE(eventually([&] { return state_of(pid) == "Z"; }, kTestTimeout));
  const auto status = start(Command{.arguments = {DDP_LAUNCH, "status"}, .environment = runtime});
  EXPECT_EQ(status->wait(allowed(2s)), 0) << status->err();  // the agent's loop goes round
  EXPECT_EQ(::waitpid(pid, nullptr, __WALL), pid);
  EXPECT_EQ(job->wait(allowed(1s)), 7);
}

// A tracer that does not wait for a dead worker keeps the kernel from telling the agent, as does
// the time to free the memory of a large one, or a GPU's. Its peer is told meanwhile.
TEST_F(NodeFaults, W2_APeerIsToldBeforeTheKernelTellsOfADeath) {
  for (const std::string page : {"progress 1 ", ""}) {
    const auto job = launch_fakes(
        2, page + "on 1 [ pid ] on 0 [ catch TERM print ready ] hold", {"--grace=200ms"});
    const int victim = job->number_after("[0:1] pid ");
    ASSERT_TRUE(job->sees("ready"));
    ASSERT_EQ(::ptrace(PTRACE_SEIZE, victim, 0, 0), 0) << std::strerror(errno);
    send_signal(victim, SIGKILL);
    EXPECT_TRUE(job->sees("[0:0] caught TERM")) << page;
    EXPECT_TRUE(job->sees("rank 1 (pid " + std::to_string(victim) +
                          ") has failed: signal SIGKILL (9); stopping the other 1 worker."));
    EXPECT_EQ(state_of(victim), "Z");
    EXPECT_EQ(::waitpid(victim, nullptr, __WALL), victim);
    EXPECT_EQ(job->wait(), 137);
    EXPECT_TRUE(job->sees("signal SIGKILL (9) received by pid " + std::to_string(victim)));
  }
}

// Pids are scarce, so that the number of whatever has died is soon somebody else's. Since
// Linux 6.14 the limit is that of a pid namespace, so that nobody else feels it.
TEST_F(NodeFaults, S3_NobodyWhoGotTheNumberOfADeadProcessIsSignalled) {
  utsname system{};
  ::uname(&system);
  int major = 0;
  int minor = 0;
  std::sscanf(system.release, "%d.%d", &major, &minor);
  if (::geteuid() != 0 || std::pair(major, minor) < std::pair(6, 14))
    GTEST_SKIP() << "needs root and Linux 6.14, for a limit of pids of its own";
  const auto churn =
      find_variable(read_environment(), "DDP_CHURN").value_or(kInstrumented ? "1000" : "10000");
  const std::string script =
      "echo 420 > /proc/sys/kernel/pid_max || exit 3; "  // 300 are reserved
      "\"$0\" --nproc-per-node=2 --max-restarts=100000 --died-within=0s --grace=1s \"$1\" "
      "spawn [ hold ] lose [ ignore TERM hold ] on 1 [ exit 7 ] hold > /dev/null 2> \"$2\" & "
      "\"$1\" churn " +
      churn + "; kill $!; wait";
  const std::string log = (scratch() / "log").string();
  const auto job = start(Command{.arguments = {"/usr/bin/unshare",
                                               "--pid",
                                               "--fork",
                                               "--kill-child",
                                               "--mount-proc",
                                               "/bin/sh",
                                               "-c",
                                               script,
                                               DDP_LAUNCH,
                                               DDP_FAKE_WORKER,
                                               log},
                                 .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
  EXPECT_EQ(job->wait(60s), 0) << job->err();
  EXPECT_THAT(job->out(), HasSubstr("hit 0 of " + churn + "\n"));
  EXPECT_GT(count(read_all(log), "has failed"), 20U) << read_all(log);  // rounds beside the churn
}

// Containers with a root that cannot be written, and places without what every other has.
class SmallPlace : public ProcessTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to mount";
  }

  /// The exit code of a job after such commands of a shell, and what was printed.
  std::string inside(const std::string& before) {
    const auto job =
        start(Command{.arguments = {"/usr/bin/unshare",
                                    "--mount",
                                    "/bin/sh",
                                    "-c",
                                    before + "; unset XDG_RUNTIME_DIR; exec \"$0\" \"$1\" print on",
                                    DDP_LAUNCH,
                                    DDP_FAKE_WORKER}});
    const int code = job->wait();
    return std::to_string(code) + " " + job->out() + job->err();
  }
};

TEST_F(SmallPlace, S6_OneWritablePlaceIsEnoughAndNoneIsReported) {
  const std::string closed = "mount -t tmpfs -o ro none ";
  EXPECT_EQ(inside(closed + "/tmp; mount -t tmpfs none /dev/shm"), "0 [0:0] on\n");
  EXPECT_THAT(inside(closed + "/tmp; " + closed + "/dev/shm; " + closed + "/run"),
              AllOf(testing::StartsWith("125 "),
                    HasSubstr("Set XDG_RUNTIME_DIR or TMPDIR to a directory of yours")));
}

TEST_F(SmallPlace, S6_MissingProcIsReported) {
  if (kInstrumented) GTEST_SKIP() << "a sanitizer itself needs /proc";
  EXPECT_THAT(inside("mount -t tmpfs none /proc"),
              AllOf(testing::StartsWith("125 "), HasSubstr("/proc is not mounted here")));
}

/// A root that cannot be written, and nothing else can that every container has.
class ReadOnlyNode : public ProcessTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to mount";
  }

  /// In a shell whose TMPDIR is /mnt: "$0" is the launcher, "$1" the worker. Returns its code and
  /// what was printed.
  std::string inside(const std::string& commands) {
    const std::string closed = "mount -t tmpfs -o ro none ";
    const auto job = start(
        Command{.arguments = {"/usr/bin/unshare",
                              "--mount",
                              "/bin/sh",
                              "-c",
                              closed + "/tmp && " + closed + "/dev/shm && " + closed +
                                  "/run && mount -t tmpfs none /mnt && unset XDG_RUNTIME_DIR && "
                                  "export TMPDIR=/mnt && { " +
                                  commands + "; }",
                              DDP_LAUNCH,
                              DDP_FAKE_WORKER}});
    const int code = job->wait();
    return std::to_string(code) + " " + job->out() + job->err();
  }
};

TEST_F(ReadOnlyNode, S6_TheUsersOwnPlaceForTemporaryFilesIsTaken) {
  EXPECT_EQ(inside("\"$0\" \"$1\" print on && ls /mnt"), "0 [0:0] on\nddp-0\n");
}

TEST_F(ReadOnlyNode, S6_DirectoryThatOthersMayWriteIsNotUsed) {
  EXPECT_THAT(inside("chmod 0777 /mnt; \"$0\" \"$1\" print on"),
              AllOf(testing::StartsWith("125 "),
                    HasSubstr("Set XDG_RUNTIME_DIR or TMPDIR to a directory of yours")));
}

TEST_F(ReadOnlyNode, S6_AJobThereIsFoundByWhoHasAnotherPlace) {
  const std::string text = inside(
      "mkdir /mnt/a /mnt/b; "
      "{ TMPDIR=/mnt/a \"$0\" --rdzv-id one \"$1\" print ready hold; echo \"code $?\"; } | { "
      "read -r line; echo \"$line\"; "
      "TMPDIR=/mnt/b \"$0\" --rdzv-id one \"$1\" print twice 2>&1; echo \"second $?\"; "
      "TMPDIR= \"$0\" status; TMPDIR= \"$0\" stop; cat; }");
  EXPECT_THAT(text,
              AllOf(testing::StartsWith("0 [0:0] ready\n"),
                    HasSubstr("second 202\n"),
                    HasSubstr("fake_worker"),
                    HasSubstr("code 143\n")));
  EXPECT_THAT(text, Not(HasSubstr("twice")));
}

TEST_F(NodeFaults, S7_AWorkingDirectoryThatIsGoneIsNamed) {
  const std::string gone = (scratch() / "gone").string();
  const auto job = start(Command{
      .arguments = {"/bin/sh",
                    "-c",
                    "mkdir \"$2\" && cd \"$2\" && rmdir \"$2\" && exec \"$0\" \"$1\" print on",
                    DDP_LAUNCH,
                    DDP_FAKE_WORKER,
                    gone}});
  EXPECT_EQ(job->wait(), 125);
  EXPECT_THAT(job->err(),
              AllOf(HasSubstr("the working directory " + gone), HasSubstr("Change into one")));
  EXPECT_EQ(job->out(), "");
}

TEST_F(NodeFaults, S8_AnEmptyNameIsNoProgram) {
  const auto job = launch({"", "print", "on"});
  EXPECT_EQ(job->wait(), 127);
  EXPECT_THAT(job->err(), HasSubstr("cannot start a program without a name"));
}

}  // namespace
}  // namespace ddp::test
