// Texts of /proc and of cgroup files, v1 and v2.
#include "launcher/plan/start/cgroups.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* kUnified =
    "24 1 0:22 / /proc rw - proc proc rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kHybrid =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "39 31 0:36 /docker/a /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST(Cgroups, TheCgroupAndThoseAboveItAreFound) {
  EXPECT_EQ(
      cgroup_directories("0::/user.slice/job\n", kUnified, ""),
      (Texts{"/sys/fs/cgroup/user.slice/job", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}));
  EXPECT_EQ(cgroup_directories("0::/", kUnified, ""), Texts{"/sys/fs/cgroup"});
  EXPECT_EQ(cgroup_directories("0::/", "", ""), Texts{});
  EXPECT_EQ(cgroup_directories("", kUnified, ""), Texts{});
}

TEST(Cgroups, AV1HierarchyIsFoundByItsController) {
  constexpr const char* kMine = "8:pids:/docker/a/b\n4:cpu,cpuacct:/x\n0::/\n";
  EXPECT_EQ(cgroup_directories(kMine, kHybrid, "cpu"),
            (Texts{"/sys/fs/cgroup/cpu,cpuacct/x", "/sys/fs/cgroup/cpu,cpuacct"}));
  EXPECT_EQ(cgroup_directories(kMine, kHybrid, "memory"), Texts{});
  EXPECT_EQ(cgroup_directories(kMine, kHybrid, ""), Texts{"/sys/fs/cgroup/unified"});
  EXPECT_EQ(cgroup_directories(kMine, kUnified, "cpu"), Texts{});
}

TEST(Cgroups, AContainersPartOfTheHierarchyIsItsRoot) {
  EXPECT_EQ(cgroup_directories("8:pids:/docker/a/b\n", kHybrid, "pids"),
            (Texts{"/sys/fs/cgroup/pids/b", "/sys/fs/cgroup/pids"}));
  EXPECT_EQ(cgroup_directories("8:pids:/docker/a\n", kHybrid, "pids"),
            Texts{"/sys/fs/cgroup/pids"});
  EXPECT_EQ(cgroup_directories("8:pids:/docker/ab\n", kHybrid, "pids"),
            Texts{"/sys/fs/cgroup/pids"});
  EXPECT_EQ(cgroup_directories("0::/../other\n", kUnified, ""), Texts{"/sys/fs/cgroup"});
}

TEST(Cgroups, ACpuQuotaIsQuotaPerPeriod) {
  EXPECT_EQ(read_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(read_cpu_max("400000 100000"), 4.0);
  EXPECT_EQ(read_cpu_max("max 100000\n"), std::nullopt);
  for (const char* const broken : {"", "\n", "100000", "0 100000", "100000 0", "-1 5", "1 2 x"})
    EXPECT_EQ(read_cpu_max(broken), std::nullopt) << broken;
  EXPECT_EQ(read_cfs_quota("250000\n", "100000\n"), 2.5);
  EXPECT_EQ(read_cfs_quota("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(read_cfs_quota("", ""), std::nullopt);
}

TEST(Cgroups, CountsAndEntriesAreRead) {
  EXPECT_EQ(read_count("17\n"), 17);
  EXPECT_EQ(read_count("-1\n"), -1);
  EXPECT_EQ(read_count("max\n"), std::nullopt);
  EXPECT_EQ(read_count("17 x"), std::nullopt);
  EXPECT_EQ(read_entry("low 0\noom 3\noom_kill 2\noom_group_kill 1\n", "oom_kill"), 2);
  EXPECT_EQ(read_entry("oom 3\n", "oom_kill"), std::nullopt);
}

}  // namespace
}  // namespace ddp::launcher
