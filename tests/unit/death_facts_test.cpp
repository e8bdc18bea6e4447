// What texts of the kernel say about a dead worker.
#include "launcher/plan/failure/death_facts.h"

#include <gmock/gmock.h>

namespace ddp::launcher {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(DeathFacts, ARecordOfTheKernelLogIsRead) {
  const auto record = read_kernel_record("6,1234,5623783578,-;p[8010]: segfault at 7\n DEVICE=x\n");
  EXPECT_EQ(record, "p[8010]: segfault at 7");
  for (const char* const broken : {"", "a", "1,2,3,-"})
    EXPECT_FALSE(read_kernel_record(broken).has_value()) << broken;
}

TEST(DeathFacts, AKillForLackOfMemoryIsFound) {
  constexpr const char* kCgroup =
      "Memory cgroup out of memory: Killed process 801 (python3) total-vm:9kB, anon-rss:8kB";
  EXPECT_THAT(kernel_fact(kCgroup, 801), StartsWith("killed by the kernel for lack of memory: "));
  EXPECT_THAT(kernel_fact("Out of memory: Killed process 801 (p)", 801), HasSubstr("(p)"));
  EXPECT_EQ(kernel_fact(kCgroup, 80), "");
  EXPECT_EQ(kernel_fact(kCgroup, 8010), "");
}

TEST(DeathFacts, AFaultOfTheProcessIsQuoted) {
  constexpr const char* kLine = "ddp-worker[801]: segfault at 7fd8 ip 000055bf error 4 in x";
  EXPECT_EQ(kernel_fact(kLine, 801), std::string("kernel log: ") + kLine);
  EXPECT_EQ(kernel_fact(kLine, 1), "");
  EXPECT_EQ(kernel_fact("eth0: link [801] up", 801), "");
}

TEST(DeathFacts, AnErrorOfAGpuIsQuotedUnlessItIsAnothersProcess) {
  const auto fact = [](const std::string& rest) {
    return kernel_fact("NVRM: Xid (PCI:0000:dc:00): " + rest, 801);
  };
  EXPECT_THAT(fact("31, pid=801, name=python3"), StartsWith("GPU error in the kernel log: NVRM"));
  EXPECT_THAT(fact("79, pid='<unknown>', name=<unknown>"), HasSubstr("79"));
  EXPECT_THAT(fact("48, DBE"), HasSubstr("48"));
  EXPECT_EQ(fact("31, pid=802, name=python3"), "");
}

TEST(DeathFacts, ABrokenGpuIsToldFromAProgramThatFailedOnIt) {
  const auto is_broken = [](const std::string& rest) {
    return is_gpu_broken("NVRM: Xid (PCI:0000:dc:00): " + rest);
  };
  EXPECT_TRUE(is_broken("79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."));
  EXPECT_TRUE(is_broken("48, pid=801, name=python3, DBE (double bit error) ECC Error"));
  EXPECT_TRUE(is_broken("94, Contained: SM"));
  EXPECT_FALSE(is_broken("31, pid=801, name=python3, MMU Fault"));
  EXPECT_FALSE(is_broken("13, Graphics Exception"));
  EXPECT_FALSE(is_broken("43, pid=801"));
  EXPECT_FALSE(is_broken("7, 9"));
  for (const char* const line : {"", "NVRM: Xid (PCI", "79, x", "NVRM: Xid (PCI:0): "})
    EXPECT_FALSE(is_gpu_broken(line)) << line;
}

TEST(DeathFacts, ACorePatternIsFilled) {
  const CoreFacts facts{801, 11, 7, 8, "a", "/opt/x/train-a-very-long-name", "/data"};
  EXPECT_EQ(core_path("core\n", false, facts), "/data/core");
  EXPECT_EQ(core_path("core\n", true, facts), "/data/core.801");
  EXPECT_EQ(core_path("core.%p", true, facts), "/data/core.801");
  EXPECT_EQ(core_path("/c/%h-%s-%u-%g-%%-%t", false, facts), "/c/a-11-7-8-%-*");
  EXPECT_EQ(core_path("/c/%e", false, facts), "/c/train-a-very-lo*");
  EXPECT_EQ(core_path("/c/%E", false, facts), "/c/!opt!x!train-a-very-long-name");
}

TEST(DeathFacts, SharedMemoryIsNamedWhenItIsFullOrTiny) {
  constexpr std::uint64_t kMiB = 1 << 20;
  EXPECT_THAT(shared_memory_fact({64 * kMiB, 1000}), StartsWith("/dev/shm is full: 0 KiB of 64"));
  EXPECT_THAT(shared_memory_fact({1000 * kMiB, 5 * kMiB}), StartsWith("/dev/shm is full: 5120"));
  EXPECT_THAT(shared_memory_fact({64 * kMiB, 60 * kMiB}),
              StartsWith("/dev/shm has only 64 MiB. Make it larger (a container: --shm-size)"));
  EXPECT_EQ(shared_memory_fact({1000 * kMiB, 500 * kMiB}), "");
  EXPECT_EQ(shared_memory_fact({}), "");
}

}  // namespace
}  // namespace ddp::launcher
