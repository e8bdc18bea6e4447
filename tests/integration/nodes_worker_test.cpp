// ddp-worker over several nodes: Gloo between network namespaces, the store on node 0.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::chrono::minutes kTraining{4};  // far above what it takes

class NodesWorker : public ClusterTest {
 protected:
  /// `launch` and its flags, then a short training into `output`.
  std::unique_ptr<Running> train(std::vector<std::string> words, const std::string& output) {
    for (const std::string& word : {std::string(DDP_CONFIGS "/digits.yaml"),
                                    "output=" + (scratch() / output).string(),
                                    std::string("data.train_size=1920"),
                                    std::string("data.test_size=192"),
                                    std::string("train.epochs=1")})
      words.push_back(word);
    // The order of additions depends on the number of threads.
    return start(Command{.arguments = std::move(words), .environment = {{"OMP_NUM_THREADS", "1"}}});
  }
  /// The words that start the agent of a node of two, then `more`.
  [[nodiscard]] std::vector<std::string> launch_of(int node,
                                                   const std::vector<std::string>& more) const {
    std::vector<std::string> words = cluster().enter(node);
    words.insert(words.end(),
                 {DDP_LAUNCH,
                  "--nnodes=2",
                  "--node-rank=" + std::to_string(node),
                  "--master-addr=" + Cluster::address(0)});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] std::string weights(const std::string& output) const {
    for (const auto& entry :
         std::filesystem::directory_iterator(scratch() / output / "digits/checkpoints")) {
      std::ifstream file(entry.path() / "model.safetensors", std::ios::binary);
      if (file) return {std::istreambuf_iterator<char>(file), {}};
    }
    return "";
  }
};

TEST_F(NodesWorker, UnequalNodesTrainToTheSameWeightsAsOneNode) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  std::vector<std::unique_ptr<Running>> agents;
  for (const int node : {0, 1}) {
    agents.push_back(
        train(launch_of(node, {"--nproc-per-node=" + std::to_string(node + 1)}), "nodes"));
  }
  EXPECT_EQ(agents[0]->wait(kTraining), 0) << agents[0]->err();
  EXPECT_EQ(agents[1]->wait(kTraining), 0) << agents[1]->err();
  EXPECT_THAT(agents[1]->err(), HasSubstr("node 1 (node1): ranks 1-2"));
  const auto alone = train({DDP_LAUNCH, "--nproc-per-node=3"}, "alone");
  EXPECT_EQ(alone->wait(kTraining), 0) << alone->err();
  EXPECT_FALSE(weights("nodes").empty());
  EXPECT_TRUE(weights("nodes") == weights("alone"));
}

TEST_F(NodesWorker, AnotherJobFileOnOneNodeIsRefusedByItsKeys) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  std::vector<std::unique_ptr<Running>> agents;
  for (const int node : {0, 1}) {
    agents.push_back(
        start(Command{.arguments = launch_of(node,
                                             {DDP_CONFIGS "/digits.yaml",
                                              "output=" + (scratch() / "other").string(),
                                              "optimizer.lr=0." + std::to_string(node + 1)})}));
  }
  EXPECT_EQ(agents[1]->wait(), 203);
  EXPECT_THAT(agents[1]->err(),
              HasSubstr("optimizer.lr is 0.2 on node 1 (node1, 10.77.0.2) and something else on "
                        "node 0"));  // there is no token
  EXPECT_TRUE(agents[0]->sees("refused: not the same job"));
  EXPECT_TRUE(
      agents[0]->sees("optimizer.lr is 0.2 on node 1 (node1, 10.77.0.2) and 0.1 on node 0"));
  agents[0]->signal(SIGTERM);
  EXPECT_EQ(agents[0]->wait(), 143);
  EXPECT_FALSE(std::filesystem::exists(scratch() / "other"));
}

}  // namespace
}  // namespace ddp::test
