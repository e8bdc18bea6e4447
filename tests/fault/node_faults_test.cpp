// What the node does to workers, and what only the node can end: its memory, its limits, its
// cgroups. Rows W, L and S of the list of faults.
#include <gmock/gmock.h>
#include <signal.h>

#include "launcher/plan/cgroups.h"
#include "tests/support/cgroup.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class NodeFaults : public ProcessTest {};

TEST_F(NodeFaults, W1_ACoreFileIsNamed) {
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
    EXPECT_THAT(job->err(), HasSubstr("  found      : core dump handed to "));
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
  EXPECT_THAT(job->err(), HasSubstr("  rank       : 1 "));
  EXPECT_THAT(job->err(), HasSubstr(" for lack of memory"));
  EXPECT_TRUE(nothing_lives_within(kPatience));
}

TEST_F(NodeFaults, S2_TheProcessLimitOfACgroupIsSeenBeforeAnythingStarts) {
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
TEST_F(NodeFaults, L1_WhatHidesDiesByTheCgroupWhenTheLauncherIsKilled) {
  const auto job = launch({"-v", "/bin/sh", "-c", kHider, DDP_FAKE_WORKER});
  ASSERT_TRUE(job->sees("[0:0] pid ") && job->sees("supervision: "));
  job->read_for(20ms);  // the rest of that line
  const pid_t pid = job->number_after("pid ");
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

TEST_F(NodeFaults, W10_WhatCannotBeKilledIsNamed) {
  const TestCgroup freezer("freezer");  // of v1: SIGKILL waits for the thaw
  if (!freezer.is_there() || !freezer.has("freezer.state")) {
    GTEST_SKIP() << "needs a cgroup v1 with the freezer controller of its own";
  }
  const auto job = launch({"--nproc-per-node=2",
                           "--grace=200ms",
                           DDP_FAKE_WORKER,
                           "print",
                           "up",
                           "on",
                           "1",
                           "[",
                           "pid",
                           "hold",
                           "]",
                           "wait",
                           "USR1"});
  ASSERT_TRUE(job->sees("[0:0] up") && job->sees("[0:1] pid "));
  job->read_for(20ms);
  const pid_t pid = job->number_after("[0:1] pid ");
  freezer.set("cgroup.procs", std::to_string(pid));
  freezer.set("freezer.state", "FROZEN");
  job->signal(SIGTERM);
  const int code = job->wait(30s);
  freezer.set("freezer.state", "THAWED");
  EXPECT_EQ(code, 143);          // the verdict keeps its code
  EXPECT_LT(job->lived(), 15s);  // the grace, 10 s of SIGKILL, 2 s for its output, 1 s to reap it
  EXPECT_THAT(job->err(),
              HasSubstr("could not be killed and is left: pid " + std::to_string(pid) + " (fake"));
  EXPECT_THAT(job->err(), HasSubstr("its stdout is cut here: it could not be killed."));
  EXPECT_TRUE(nothing_lives_within(5s));
}

TEST_F(NodeFaults, W11_WhatHidesEndsWithItsJob) {
  const auto job = launch({"/bin/sh", "-c", kHider, DDP_FAKE_WORKER});
  ASSERT_TRUE(job->sees("[0:0] pid "));
  job->read_for(20ms);
  const pid_t pid = job->number_after("pid ");
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
  EXPECT_TRUE(eventually([&] { return alive().size() > 100; }, kPatience));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_TRUE(nothing_lives_within(1s));
}

}  // namespace
}  // namespace ddp::test
