// What a node gives and forbids: cgroups, limits, CPUs. Each test makes the condition for real, in
// a cgroup of its own where this machine lets it.
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "common/files.h"
#include "launcher/plan/cgroups.h"
#include "launcher/plan/numa.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using testing::HasSubstr;

/// A cgroup below our own, of a v1 controller or of the v2 hierarchy with that controller.
class TestCgroup {
 public:
  explicit TestCgroup(const std::string& controller) {
    for (const std::string& hierarchy : {controller, std::string()}) {
      const auto directories = launcher::cgroup_directories(
          read("/proc/self/cgroup"), read("/proc/self/mountinfo"), hierarchy);
      if (directories.empty()) continue;
      if (hierarchy.empty() &&
          read(directories[0] + "/cgroup.subtree_control").find(controller) == std::string::npos) {
        continue;
      }
      std::error_code error;
      path_ = directories[0] + "/ddp-test-" + std::to_string(::getpid());
      if (std::filesystem::create_directory(path_, error)) return;
    }
    path_.clear();
  }
  TestCgroup(const TestCgroup&) = delete;
  TestCgroup& operator=(const TestCgroup&) = delete;
  ~TestCgroup() {
    if (is_there()) ::rmdir(path_.c_str());
  }
  [[nodiscard]] bool is_there() const { return !path_.empty(); }
  [[nodiscard]] bool has(const std::string& file) const {
    return std::filesystem::exists(path_ + "/" + file);
  }
  void set(const std::string& file, const std::string& text) const {
    std::ofstream(path_ + "/" + file) << text << std::flush;
  }
  /// Before a command: it joins the cgroup.
  [[nodiscard]] std::vector<std::string> enter() const {
    return {"/bin/sh", "-c", "echo $$ > " + path_ + "/cgroup.procs && exec \"$@\"", "sh"};
  }

 private:
  static std::string read(const std::string& path) { return read_file(path).value_or(""); }
  std::string path_;
};

class LauncherNode : public ProcessTest {
 protected:
  std::unique_ptr<Running> launch_in(const TestCgroup& cgroup,
                                     const std::vector<std::string>& arguments) {
    Command command{.arguments = cgroup.enter(),
                    .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}};
    command.arguments.emplace_back(DDP_LAUNCH);
    for (const std::string& argument : arguments)
      command.arguments.push_back(argument);
    return start(command);
  }
};

TEST_F(LauncherNode, TheCpuQuotaOfACgroupCounts) {
  const TestCgroup cgroup("cpu");
  if (!cgroup.is_there()) GTEST_SKIP() << "needs a cgroup with the cpu controller of its own";
  cgroup.set("cpu.cfs_quota_us", "100000");  // v1; 100 ms of each 100 ms: one CPU
  cgroup.set("cpu.max", "100000 100000");    // v2
  const auto job = launch_in(cgroup, {"--nproc-per-node=cpu", DDP_FAKE_WORKER, "print", "here"});
  EXPECT_EQ(job->wait(), 0);
  EXPECT_THAT(job->err(), HasSubstr("workers: 1, one per CPU that we may use (cpu)"));
  EXPECT_THAT(job->out(), HasSubstr("[0:0] here\n"));
}

TEST_F(LauncherNode, WorkersAreBoundToTheirCpus) {
  const std::vector<std::string> show{"/bin/grep", "Cpus_allowed_list", "/proc/self/status"};
  const std::string status = read_file("/proc/self/status").value_or("");
  const std::size_t at = status.find("Cpus_allowed_list:\t") + 19;
  const std::vector<int> own =
      launcher::read_cpu_list(status.substr(at, status.find('\n', at) - at));
  std::vector<std::string> arguments{"-v", "--numa-binding=exclusive", "--nproc-per-node=2"};
  arguments.insert(arguments.end(), show.begin(), show.end());
  const auto job = launch(arguments);
  const int code = job->wait();
  if (code == 2) GTEST_SKIP() << "needs two physical cores: " << job->err();
  EXPECT_EQ(code, 0);
  std::vector<std::vector<int>> bound;
  for (const char* const prefix : {"[0:0] Cpus_allowed_list:\t", "[0:1] Cpus_allowed_list:\t"}) {
    const std::size_t line = job->out().find(prefix);
    ASSERT_NE(line, std::string::npos) << job->out();
    const std::string list = job->out().substr(line + std::string(prefix).size());
    bound.push_back(launcher::read_cpu_list(list.substr(0, list.find('\n'))));
    EXPECT_THAT(job->err(), HasSubstr(": CPUs " + launcher::format_cpu_list(bound.back())));
  }
  for (const int cpu : bound[0])
    EXPECT_THAT(bound[1], testing::Not(testing::Contains(cpu)));
  EXPECT_THAT(own, testing::IsSupersetOf(bound[0]));
  EXPECT_THAT(own, testing::IsSupersetOf(bound[1]));
  EXPECT_FALSE(bound[0].empty() || bound[1].empty());
  arguments[0] = "--dry-run";
  const auto plan = launch(arguments);
  EXPECT_EQ(plan->wait(), 0);
  EXPECT_THAT(plan->out(), HasSubstr("  CPUs: " + launcher::format_cpu_list(bound[1]) + "\n"));
}

// S2
TEST_F(LauncherNode, TheProcessLimitOfACgroupIsSeenBeforeAnythingStarts) {
  const TestCgroup cgroup("pids");
  if (!cgroup.is_there()) GTEST_SKIP() << "needs a cgroup with the pids controller of its own";
  cgroup.set("pids.max", "5");
  const auto refused = launch_in(cgroup, {"--nproc-per-node=2", DDP_FAKE_WORKER, "print", "on"});
  EXPECT_EQ(refused->wait(), 126);
  EXPECT_THAT(refused->err(),
              HasSubstr("this needs 5 processes and threads, 4 are left: pids.max"));
  EXPECT_EQ(refused->out(), "");
  cgroup.set("pids.max", "6");
  const auto started = launch_in(cgroup, {"--nproc-per-node=2", DDP_FAKE_WORKER, "print", "on"});
  EXPECT_EQ(started->wait(), 0);
}

// W2
TEST_F(LauncherNode, AKillForLackOfMemoryIsNamed) {
  const TestCgroup cgroup("memory");
  if (!cgroup.is_there()) GTEST_SKIP() << "needs a cgroup with the memory controller of its own";
  cgroup.set("memory.limit_in_bytes", "64M");  // v1
  cgroup.set("memory.max", "64M");             // v2
  cgroup.set("memory.swap.max", "0");
  const auto job = launch_in(
      cgroup,
      {"--nproc-per-node=2", DDP_FAKE_WORKER, "on", "1", "[", "fill", "500000000", "]", "hold"});
  EXPECT_EQ(job->wait(), 137);
  EXPECT_THAT(job->err(), HasSubstr("  rank       : 1 "));
  EXPECT_THAT(job->err(), HasSubstr(" for lack of memory"));
  EXPECT_TRUE(nothing_lives_within(kPatience));
}

// W1
TEST_F(LauncherNode, ACoreFileIsNamed) {
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

TEST_F(LauncherNode, AForbiddenCoreFileIsAHint) {
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

}  // namespace
}  // namespace ddp::test
