// Nodes that do not find each other at once. Row N7 of the list of faults.
#include <gmock/gmock.h>

#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class JoinFaults : public ClusterTest {
 protected:
  /// Runs a line of shell on that node.
  void run_on(int node, const std::string& line) {
    Command command{.arguments = cluster().enter(node)};
    for (const std::string& word : {std::string("/bin/sh"), std::string("-c"), line})
      command.arguments.push_back(word);
    const auto shell = start(command);
    EXPECT_EQ(shell->wait(), 0) << line << "\n" << shell->err();
  }
};

// Case N7: DNS gives a dead address first, one that answers nothing and refuses nothing.
TEST_F(JoinFaults, N7_ADeadAddressBeforeTheRightOneDelaysNobody) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  run_on(1,
         "ip -6 address add fd77::2/64 dev eth0 nodad && "
         "printf 'fd77::dead master\\n10.77.0.99 master\\n10.77.0.1 master\\n' >> /etc/hosts && "
         "getent ahosts master");
  const auto zero = launch_on(0, "print ready hold");
  const auto begin = std::chrono::steady_clock::now();
  const auto one = launch_on(1, "print ready hold", {"--master-addr", "master"});
  ASSERT_TRUE(one->sees("joined node0 (node 0) at 10.77.0.1")) << one->err();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  zero->signal(SIGTERM);
  EXPECT_EQ(zero->wait(), 143) << zero->err();
  EXPECT_EQ(one->wait(), 143) << one->err();
}

}  // namespace
}  // namespace ddp::test
