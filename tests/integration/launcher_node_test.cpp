// What a node gives: CPUs, by quota and by binding. Each test makes the condition for real, in a
// cgroup of its own where this machine lets it.
#include <gmock/gmock.h>

#include <map>
#include <utility>

#include "common/files/files.h"
#include "common/node/proc_gpus.h"
#include "common/text/join_words.h"
#include "launcher/plan/start/numa.h"
#include "tests/support/cgroup.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class LauncherNode : public ProcessTest {};

TEST_F(LauncherNode, TheCpuQuotaOfACgroupCounts) {
  const TestCgroup cgroup("cpu");
  if (!cgroup.is_there()) GTEST_SKIP() << "needs a cgroup with the cpu controller of its own";
  cgroup.set("cpu.cfs_quota_us", "150000");  // v1; 150 ms of each 100 ms: one CPU runs all the time
  cgroup.set("cpu.max", "150000 100000");    // v2
  const auto job = start(
      launch_inside(cgroup, scratch(), {"--nproc-per-node=cpu", DDP_FAKE_WORKER, "print", "here"}));
  EXPECT_EQ(job->wait(), 0);
  EXPECT_THAT(job->err(), HasSubstr("workers: 1, one per CPU that we may use (cpu)"));
  EXPECT_THAT(job->out(), HasSubstr("[0:0] here\n"));
}

// Linux 6.18 kills anyone who is born below it before its first step.
TEST_F(LauncherNode, ACgroupThatWasKilledBeforeIsNoObstacle) {
  const TestCgroup cgroup("");  // v2
  if (!cgroup.is_there() || !cgroup.has("cgroup.kill"))
    GTEST_SKIP() << "needs a cgroup of its own with cgroup.kill (Linux 5.14)";
  cgroup.set("cgroup.kill", "1");
  const auto job = start(launch_inside(
      cgroup, scratch(), {"-v", "--nproc-per-node=2", DDP_FAKE_WORKER, "print", "here"}));
  EXPECT_EQ(job->wait(), 0);
  EXPECT_THAT(job->out(), HasSubstr("[0:0] here\n"));
  EXPECT_THAT(job->out(), HasSubstr("[0:1] here\n"));
  EXPECT_TRUE(nothing_lives_within(1s)) << testing::PrintToString(alive());
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
    EXPECT_THAT(job->err(), HasSubstr(": CPUs " + join_ranges(bound.back())));
  }
  for (const int cpu : bound[0])
    EXPECT_THAT(bound[1], testing::Not(testing::Contains(cpu)));
  EXPECT_THAT(own, testing::IsSupersetOf(bound[0]));
  EXPECT_THAT(own, testing::IsSupersetOf(bound[1]));
  EXPECT_FALSE(bound[0].empty() || bound[1].empty());
  arguments[0] = "--dry-run";
  const auto plan = launch(arguments);
  EXPECT_EQ(plan->wait(), 0);
  EXPECT_THAT(plan->out(), HasSubstr("  CPUs: " + join_ranges(bound[1]) + "\n"));
}

// As on WSL2.
TEST_F(LauncherNode, GpusWithoutDeviceFilesAreToldByTheDriver) {
  if (!find_gpus().empty()) GTEST_SKIP() << "needs a machine without GPUs";
  const auto run = [this](const std::string& result, const std::vector<std::string>& arguments) {
    Command command{
        .arguments = {DDP_LAUNCH, "--dry-run"},
        .environment = {{"LD_LIBRARY_PATH", DDP_FAKE_CUDA_DIR}, {"DDP_FAKE_CUINIT", result}}};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    auto job = start(command);
    const int code = job->wait();
    return std::pair(code, job->err());
  };
  const std::vector<std::string> one_each{"--nproc-per-node=gpu", DDP_FAKE_WORKER};
  const auto [code, text] = run("0", one_each);
  EXPECT_EQ(code, 0) << text;
  EXPECT_THAT(text, HasSubstr("workers: 2, one per GPU (gpu)"));
  const std::map<std::string, std::string> reasons{
      {"100", "(cuInit: 100) finds no GPU"},
      {"803", "(cuInit: 803) and the one in the kernel are of two versions"},
      {"999", "(cuInit: 999) fails for a reason that it does not know"}};
  for (const auto& [result, reason] : reasons) {
    const auto [refused, why] = run(result, one_each);
    EXPECT_EQ(refused, 2) << why;
    EXPECT_THAT(why, HasSubstr(reason));
  }
  EXPECT_TRUE(nothing_lives_within(1s)) << testing::PrintToString(alive());
}

TEST_F(LauncherNode, AWorkerIsStartedForEachGpuThatIsVisible) {
  if (!find_gpus().empty()) GTEST_SKIP() << "needs a machine without GPUs";
  const auto run = [this](const std::string& visible) {
    auto job = start({.arguments = {"/usr/bin/env",
                                    "CUDA_VISIBLE_DEVICES=" + visible,
                                    DDP_LAUNCH,
                                    "--dry-run",
                                    "--nproc-per-node=gpu",
                                    DDP_FAKE_WORKER},
                      .environment = {{"LD_LIBRARY_PATH", DDP_FAKE_CUDA_DIR}}});
    const int code = job->wait();
    return std::pair(code, job->err());
  };
  const std::string uuid = "GPU-abababab-abab-abab-abab-ababababab0";  // and the GPU's number
  const std::map<std::string, int> counts{{uuid + "0," + uuid + "1", 2},
                                          {uuid + "1," + uuid + "0", 2},
                                          {uuid + "1", 1},
                                          {"1,0", 2},
                                          {"1", 1},
                                          {"0,7,1", 1},
                                          {"MIG-1", 1},
                                          {"MIG-1,MIG-2,MIG-3", 3}};
  for (const auto& [visible, count] : counts) {
    const auto [code, text] = run(visible);
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text, HasSubstr("workers: " + std::to_string(count) + ", one per GPU (gpu)"))
        << visible;
  }
  // Nothing, nothing that is there, a beginning of two, and one GPU twice.
  for (const std::string visible : {"", "-1", "GPU-ab", "0,0"}) {
    const auto [code, text] = run(visible);
    EXPECT_EQ(code, 2) << visible;
    const std::string why = visible.empty() ? " is empty, which hides all GPUs"
                                            : "=" + visible + " leaves none of this";
    EXPECT_THAT(text, HasSubstr("no GPU can be used on this node: CUDA_VISIBLE_DEVICES" + why));
  }
}

}  // namespace
}  // namespace ddp::test
