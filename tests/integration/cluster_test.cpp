// The nodes that tests of several nodes stand on are what those tests take them for.
#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

class ClusterNodes : public ClusterTest {};

TEST_F(ClusterNodes, CablesAndFiltersDoWhatTheySay) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  EXPECT_TRUE(cluster().reaches(0, 1));
  EXPECT_TRUE(cluster().reaches(2, 1));
  cluster().unplug(1);
  EXPECT_FALSE(cluster().reaches(0, 1));
  EXPECT_TRUE(cluster().reaches(0, 2));
  cluster().plug_in(1);
  EXPECT_TRUE(cluster().reaches(0, 1));
  cluster().drop(0, 1);
  EXPECT_FALSE(cluster().reaches(0, 1));
  EXPECT_TRUE(cluster().reaches(2, 1));
  cluster().heal(1);
  EXPECT_TRUE(cluster().reaches(0, 1));
}

TEST_F(ClusterNodes, EachHasItsNameAndKnowsTheOthers) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  cluster().set_host_address(1, "127.0.1.1");
  Command command{.arguments = cluster().enter(1)};
  for (const char* const word : {"/bin/sh", "-c", "hostname; getent hosts node0 node1"})
    command.arguments.emplace_back(word);
  const auto shell = start(command);
  EXPECT_EQ(shell->wait(), 0);
  EXPECT_TRUE(shell->sees("node1\n10.77.0.1       node0\n127.0.1.1       node1\n")) << shell->out();
}

TEST_F(ClusterNodes, TheirSteadyClocksMayDiffer) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  cluster().shift_boot_clock(1, std::chrono::hours(24000));
  Command command{.arguments = cluster().enter(1)};
  for (const char* const word : {"/bin/sh", "-c", "cut -d. -f1 /proc/uptime"})
    command.arguments.emplace_back(word);
  const auto shell = start(command);
  EXPECT_EQ(shell->wait(), 0);
  EXPECT_GT(std::stol(shell->out()), 24000 * 3600);
}

}  // namespace
}  // namespace ddp::test
