// ddp-worker over several nodes: Gloo between network namespaces, the store on node 0.
#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>

#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::DoubleNear;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;

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
  // Only where somebody on a network can reach them.
  const std::string warning = "lets anyone who reaches a rank's port write into its memory";
  EXPECT_EQ(agents[0]->err().find(warning) != std::string::npos, DDP_OLD_GLOO != 0);
  EXPECT_THAT(agents[1]->err() + alone->err(), Not(HasSubstr(warning)));
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

TEST_F(NodesWorker, L6_AStopInAnEvaluationIsOneStepOnBothNodes) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  const auto start_node = [this](int node) {
    return start(Command{.arguments = launch_of(node,
                                                {"--nproc-per-node=1",
                                                 DDP_CONFIGS "/digits.yaml",
                                                 "model.name=resnet18",
                                                 "data.batch_per_rank=8",
                                                 "data.train_size=32",
                                                 "data.test_size=6000",
                                                 "train.epochs=1",
                                                 "output=" + (scratch() / "nodes").string()}),
                         .environment = {{"OMP_NUM_THREADS", "1"}}});
  };
  const auto node0 = start_node(0);
  const auto node1 = start_node(1);
  // The epoch is saved, so it is being evaluated: that takes many times longer than the two steps.
  const std::filesystem::path run = scratch() / "nodes/digits";
  const auto saved = run / "checkpoints/step-000002/manifest.json";
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(saved); }, kTraining))
      << node0->err();
  node0->signal(SIGTERM);
  EXPECT_EQ(node0->wait(), 143) << node0->err();
  EXPECT_EQ(node1->wait(), 143) << node1->err();
  EXPECT_THAT(node0->out(), HasSubstr("stopped after step 2 with a checkpoint"));
  std::ifstream file(saved);
  const std::string manifest{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(manifest, HasSubstr("\"epoch\":0,\"step_in_epoch\":2,")) << "not evaluated yet";
}

/// A job of one node or two, of two ranks each.
class ElasticWorker : public NodesWorker {
 protected:
  static constexpr int kSteps = 60;

  std::unique_ptr<Running> train_slowly(int node, const std::string& output) {
    return start_odd({"--nproc-per-node=2",
                      "--nnodes=1:2",
                      "--node-rank=" + std::to_string(node),
                      "--master-addr=" + Cluster::address(0),
                      "--last-call=3s"},
                     node,
                     output,
                     "slow");
  }
  std::unique_ptr<Running> start_odd(std::vector<std::string> flags,
                                     int node,
                                     const std::string& output,
                                     const std::string& how) {
    std::vector<std::string> words = cluster().enter(node);
    words.push_back(DDP_LAUNCH);
    words.insert(words.end(), flags.begin(), flags.end());
    // 1,000 samples are not a multiple of the batch: the last step of an epoch is short.
    std::ofstream(scratch() / "job.yaml")
        << "data: {name: digits, train_size: 1000, test_size: 100, batch_per_rank: 16}\n"
           "model: {name: exact}\n"
           "optimizer: {lr: 0.01, momentum: 0.9, scale_lr: linear}\n"
           "checkpoint: {every_steps: 5}\n"
           "train: {log_every: 1, epochs: 4, max_steps: "
        << kSteps << "}\n";
    for (const std::string& word : {std::string("--max-restarts=3"),
                                    std::string("--no-python"),
                                    std::string(DDP_FAULTY_WORKER),
                                    (scratch() / "job.yaml").string(),
                                    "output=" + (scratch() / output).string()})
      words.push_back(word);
    return start(Command{.arguments = std::move(words),
                         .environment = {{"OMP_NUM_THREADS", "1"}, {"FAULTY_RANK", how}}});
  }
  /// Of every step: its loss and rate.
  [[nodiscard]] std::map<int, std::pair<double, double>> steps(const std::string& output) const {
    std::map<int, std::pair<double, double>> found;
    std::ifstream file(scratch() / output / "run/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const boost::json::object record = boost::json::parse(line).as_object();
      if (record.at("kind").as_string() != "step") continue;
      found[record.at("step").to_number<int>()] = {record.at("loss").to_number<double>(),
                                                   record.at("lr").to_number<double>()};
    }
    return found;
  }

  /// The numbers of the last checkpoint's weights.
  [[nodiscard]] std::vector<double> last_weights(const std::string& output) const {
    const auto checkpoints = scratch() / output / "run/checkpoints";
    std::string name;
    std::ifstream(checkpoints / "latest") >> name;
    std::ifstream file(checkpoints / name / "model.safetensors", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::uint64_t header = 0;
    if (bytes.size() < sizeof header) return {};
    std::memcpy(&header, bytes.data(), sizeof header);
    std::vector<double> numbers((bytes.size() - 8 - header) / sizeof(double));
    std::memcpy(numbers.data(), bytes.data() + 8 + header, numbers.size() * sizeof(double));
    return numbers;
  }

  /// Four ranks on two nodes; node 1 is lost at step 13 by `lose`, comes back after `find`, and is
  /// used from the next round on.
  void expect_undisturbed(const std::function<void(Running& agent)>& lose,
                          const std::function<void()>& find) {
    const auto undisturbed = start_odd({"--nproc-per-node=4"}, 0, "undisturbed", "");
    ASSERT_EQ(undisturbed->wait(kTraining), 0) << undisturbed->err();

    std::vector<std::unique_ptr<Running>> agents;
    for (const int node : {0, 1})
      agents.push_back(train_slowly(node, "disturbed"));
    ASSERT_TRUE(agents[0]->sees("has done step 13", kTraining)) << agents[0]->err();
    lose(*agents[1]);
    ASSERT_TRUE(
        agents[0]->sees("as this run began with 4 ranks: its batch and rates stay", kTraining))
        << agents[0]->err();
    find();
    agents[1] = train_slowly(1, "disturbed");
    ASSERT_TRUE(agents[0]->sees("has done step 30", kTraining)) << agents[0]->err();
    send_signal(worker(0), SIGKILL);
    EXPECT_EQ(agents[0]->wait(kTraining), 0) << agents[0]->err();
    EXPECT_EQ(agents[1]->wait(kTraining), 0) << agents[1]->err();
    EXPECT_THAT(agents[1]->err(), HasSubstr("ranks 2-3"));

    const auto expected = steps("undisturbed");
    const auto found = steps("disturbed");
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(kSteps));
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [step, values] : expected) {
      EXPECT_NEAR(found.at(step).first, values.first, 1e-12 * std::abs(values.first)) << step;
      EXPECT_EQ(found.at(step).second, values.second) << step;
    }
    ASSERT_FALSE(last_weights("undisturbed").empty());
    EXPECT_THAT(last_weights("disturbed"),
                Pointwise(DoubleNear(1e-12), last_weights("undisturbed")));
  }
};

TEST_F(ElasticWorker, L1_TheOthersGoOnAsIfNothingHadHappened) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  expect_undisturbed([](Running& agent) { agent.signal(SIGKILL); }, [] {});
}

TEST_F(ElasticWorker, N1_TheOthersGoOnWhenTheCableIsPulled) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  expect_undisturbed(
      [this](Running& agent) {
        cluster().unplug(1);
        EXPECT_EQ(agent.wait(kTraining), 201) << agent.err();
      },
      [this] { cluster().plug_in(1); });
}

}  // namespace
}  // namespace ddp::test
