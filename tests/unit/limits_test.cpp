#include "launcher/plan/start/limits.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(Limits, EveryWorkerCostsDescriptorsAndLogsCostMore) {
  EXPECT_EQ(descriptors_needed(5, 3, false) - descriptors_needed(5, 2, false), 4);
  EXPECT_EQ(descriptors_needed(5, 3, true) - descriptors_needed(5, 2, true), 6);
  EXPECT_EQ(descriptors_needed(9, 2, true) - descriptors_needed(5, 2, true), 4);
}

TEST(Limits, EveryWorkerIsAProcessBesideGuardAndWriter) {
  EXPECT_EQ(processes_needed(8, false), 11);
  EXPECT_EQ(processes_needed(8, true), 12);
}

TEST(Limits, AQuotaLeavesWholeCpusAndAtLeastOne) {
  EXPECT_EQ(cpus_within(8, std::nullopt), 8);
  EXPECT_EQ(cpus_within(8, 2.5), 2);
  EXPECT_EQ(cpus_within(8, 1.5), 1);
  EXPECT_EQ(cpus_within(8, 0.5), 1);
  EXPECT_EQ(cpus_within(2, 64.0), 2);
}

}  // namespace
}  // namespace ddp::launcher
