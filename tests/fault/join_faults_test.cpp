// Nodes that do not find each other at once. Rows C9 and N7 of CASES.md.
#include <gmock/gmock.h>

#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class JoinFaults : public ClusterTest {
 protected:
  /// Runs a line of shell on that node; what it prints.
  std::string run_on(int node, const std::string& line) {
    Command command{.arguments = cluster().enter(node)};
    for (const std::string& word : {std::string("/bin/sh"), std::string("-c"), line})
      command.arguments.push_back(word);
    const auto shell = start(command);
    EXPECT_EQ(shell->wait(), 0) << line << "\n" << shell->err();
    return shell->out();
  }
};

// Case N7: DNS gives a dead address first, one that answers nothing and refuses nothing.
TEST_F(JoinFaults, N7_ADeadAddressBeforeTheRightOneDelaysNobody) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  run_on(0, "ip -6 address add fd77::1/64 dev eth0 nodad");
  run_on(1,
         "ip -6 address add fd77::2/64 dev eth0 nodad && "
         "printf 'fd77::dead master\\n10.77.0.99 master\\nfd77::1 master\\n' >> /etc/hosts && "
         "getent ahosts master");
  const auto zero = launch_on(0, "print ready hold", {"--master-addr", "fd77::1"});
  const auto begin = std::chrono::steady_clock::now();
  const auto one = launch_on(1, "print ready hold", {"--master-addr", "master"});
  ASSERT_TRUE(one->sees("joined node0 (node 0) at fd77::1")) << one->err();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  zero->signal(SIGTERM);
  EXPECT_EQ(zero->wait(), 143) << zero->err();
  EXPECT_EQ(one->wait(), 143) << one->err();
}

/// Says VALIDATE and PING to node 0's store; prints what it answers, or nothing when it is closed.
std::string ask_store() {
  return "python3 -c 'import socket\n"
         "peer = socket.create_connection((\"10.77.0.1\", 29500), 5)\n"
         "peer.sendall(bytes([0]) + (0x3C85F7CE).to_bytes(4, \"little\") + b\"\\x0dping\")\n"
         "try: print(\"answer:\" + peer.recv(4).decode())\n"
         "except ConnectionResetError: print(\"answer:\")'";
}

// A node that waits for a place has joined, and has no part in the store.
TEST_F(JoinFaults, A3_ASpareHasNoPartInTheStore) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const auto launch_one = [this](int node) {
    Command command{.arguments = cluster().enter(node)};
    for (const std::string& word : {std::string(DDP_LAUNCH),
                                    std::string("--nnodes=2"),
                                    "--master-addr=" + Cluster::address(0),
                                    std::string("--replace-timeout=10s"),
                                    std::string("--grace=2s"),
                                    std::string(DDP_FAKE_WORKER),
                                    std::string("print"),
                                    std::string("ready"),
                                    std::string("hold")})
      command.arguments.push_back(word);
    return start(std::move(command));
  };
  const auto zero = launch_one(0);
  const auto one = launch_one(1);
  ASSERT_TRUE(zero->sees("ready") && one->sees("ready")) << one->err();
  const auto spare = launch_one(2);
  ASSERT_TRUE(zero->sees("it enters at the next round")) << zero->err() << spare->err();
  EXPECT_EQ(run_on(2, ask_store()), "answer:\n");
  EXPECT_EQ(run_on(1, ask_store()), "answer:ping\n");
  zero->signal(SIGTERM);
  EXPECT_EQ(zero->wait(), 143) << zero->err();
  EXPECT_EQ(one->wait(), 143) << one->err();
  EXPECT_EQ(spare->wait(), 143) << spare->err();
}

// Case C9: a client of the store from a node that has not joined; the port is open to it, the store
// is not.
TEST_F(JoinFaults, C9_TheStoreServesNodesThatHaveJoinedOnly) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const auto zero = launch_on(0, "print ready hold", {"--nnodes", "2"});
  const auto one = launch_on(1, "print ready hold", {"--nnodes", "2"});
  ASSERT_TRUE(one->sees("[1:2] ready") && one->sees("[1:3] ready")) << one->err();
  EXPECT_EQ(run_on(1, ask_store()), "answer:ping\n");
  EXPECT_EQ(run_on(2, ask_store()), "answer:\n");
  EXPECT_EQ(run_on(0, ask_store()), "answer:ping\n");
  zero->signal(SIGTERM);
  EXPECT_EQ(zero->wait(), 143) << zero->err();
  EXPECT_EQ(one->wait(), 143) << one->err();
}

}  // namespace
}  // namespace ddp::test
