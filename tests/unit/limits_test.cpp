#include "launcher/plan/limits.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using Texts = std::vector<std::string>;

TEST(Limits, EveryWorkerCostsDescriptorsAndLogsCostMore) {
  EXPECT_EQ(descriptors_needed(5, 3, false) - descriptors_needed(5, 2, false), 4);
  EXPECT_EQ(descriptors_needed(5, 3, true) - descriptors_needed(5, 2, true), 6);
  EXPECT_EQ(descriptors_needed(9, 2, true) - descriptors_needed(5, 2, true), 4);
}

TEST(Limits, ACpuQuotaIsQuotaPerPeriod) {
  EXPECT_EQ(read_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(read_cpu_max("400000 100000"), 4.0);
  EXPECT_EQ(read_cpu_max("max 100000\n"), std::nullopt);
  for (const char* const broken : {"", "\n", "100000", "0 100000", "100000 0", "-1 5", "1 2 x"})
    EXPECT_EQ(read_cpu_max(broken), std::nullopt) << broken;
}

TEST(Limits, TheCgroupAndThoseAboveItAreRead) {
  EXPECT_EQ(read_cgroups("4:memory:/x\n0::/user.slice/job\n"),
            (Texts{"/user.slice/job", "/user.slice", ""}));
  EXPECT_EQ(read_cgroups("0::/"), Texts{""});
  EXPECT_EQ(read_cgroups("4:cpu:/x\n"), Texts{});
  EXPECT_EQ(read_cgroups(""), Texts{});
}

TEST(Limits, AQuotaLeavesWholeCpusAndAtLeastOne) {
  EXPECT_EQ(cpus_within(8, std::nullopt), 8);
  EXPECT_EQ(cpus_within(8, 2.5), 2);
  EXPECT_EQ(cpus_within(8, 0.5), 1);
  EXPECT_EQ(cpus_within(2, 64.0), 2);
}

}  // namespace
}  // namespace ddp::launcher
