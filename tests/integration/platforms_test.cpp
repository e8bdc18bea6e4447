// ddp-launch as platforms start it: what they say by variables is enough. Slurm itself is in
// tests/slurm.
#include <gmock/gmock.h>

#include "launcher/os/port.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

class Platforms : public ProcessTest {
 protected:
  /// One of two agents on this machine.
  std::unique_ptr<Running> start_agent(std::vector<std::string> flags, const Variables& variables) {
    std::vector<std::string> words{DDP_LAUNCH, "--grace=2s"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {DDP_FAKE_WORKER, "environment"});
    Variables all = variables;
    all["DDP_TOKEN"] = std::string(32, 't');
    return start({words, all});
  }

  /// Both agents end well, and each has the worker of its rank.
  static void expect_two_ranks(Running& zero, Running& one) {
    EXPECT_EQ(zero.wait(), 0) << zero.err();
    EXPECT_EQ(one.wait(), 0) << one.err();
    EXPECT_THAT(zero.out(), HasSubstr("[0:0] RANK=0\n"));
    EXPECT_THAT(one.out(), HasSubstr("[1:1] RANK=1\n"));
    EXPECT_THAT(one.out(), HasSubstr("[1:1] WORLD_SIZE=2\n"));
  }

  const std::string port_ = std::to_string(launcher::free_port());
};

TEST_F(Platforms, PodsOfAnIndexedJobTakeTheirIndex) {
  const std::vector<std::string> flags{
      "--nnodes=2", "--master-addr=127.0.0.1", "--master-port=" + port_};
  const auto one = start_agent(flags, {{"JOB_COMPLETION_INDEX", "1"}});
  const auto zero = start_agent(flags, {{"JOB_COMPLETION_INDEX", "0"}});
  expect_two_ranks(*zero, *one);
  EXPECT_THAT(one->err(), HasSubstr("from Kubernetes: node 1 of 2;"));
}

// As the trainer sets them; the empty ones are in unit/detect_test.cpp.
TEST_F(Platforms, KubeflowSetsTorchrunsVariables) {
  const auto variables = [this](const std::string& rank) {
    return Variables{{"PET_NNODES", "2"},
                     {"PET_NODE_RANK", rank},
                     {"PET_MASTER_ADDR", "127.0.0.1"},
                     {"PET_MASTER_PORT", port_},
                     {"PET_NPROC_PER_NODE", "1"},
                     {"JOB_COMPLETION_INDEX", rank}};
  };
  const auto zero = start_agent({}, variables("0"));
  const auto one = start_agent({}, variables("1"));
  expect_two_ranks(*zero, *one);
}

// The older training operator: an endpoint, no rank.
TEST_F(Platforms, KubeflowsElasticJobsMeetAtAnEndpoint) {
  const Variables variables{{"PET_NNODES", "2:2"},
                            {"PET_RDZV_BACKEND", "c10d"},
                            {"PET_RDZV_ENDPOINT", "127.0.0.1:" + port_},
                            {"PET_NPROC_PER_NODE", "1"},
                            {"PET_MAX_RESTARTS", "1"}};
  const auto zero = start_agent({"--rdzv-conf=is_host=1"}, variables);
  const auto one = start_agent({"--rdzv-conf=is_host=0"}, variables);
  expect_two_ranks(*zero, *one);
}

TEST_F(Platforms, MpirunGivesTheRanks) {
  const auto variables = [](const std::string& rank) {
    return Variables{{"OMPI_COMM_WORLD_RANK", rank},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  };
  const std::vector<std::string> flags{"--master-addr=127.0.0.1", "--master-port=" + port_};
  const auto zero = start_agent(flags, variables("0"));
  const auto one = start_agent(flags, variables("1"));
  expect_two_ranks(*zero, *one);
  EXPECT_THAT(zero->err(), HasSubstr("from Open MPI: node 0 of 2;"));
}

TEST_F(Platforms, DryRunShowsThePlatform) {
  const auto job =
      start({{DDP_LAUNCH, "--dry-run", "--nproc-per-node=2", "--master-addr=n1", DDP_FAKE_WORKER},
             {{"OMPI_COMM_WORLD_RANK", "1"},
              {"OMPI_COMM_WORLD_SIZE", "3"},
              {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), HasSubstr("node 1 of 3; ranks as if each node had as many workers"));
  EXPECT_THAT(job->out(), HasSubstr("rank 2 of 6, node 1, local rank 0\n"));
  EXPECT_THAT(job->out(), HasSubstr("rank 3 of 6, node 1, local rank 1\n"));
  EXPECT_THAT(job->out(), HasSubstr("GROUP_WORLD_SIZE=3\n"));
}

TEST_F(Platforms, NoAutoEnvIgnoresThePlatform) {
  const auto job = start_agent({"--no-auto-env"},
                               {{"OMPI_COMM_WORLD_RANK", "1"},
                                {"OMPI_COMM_WORLD_SIZE", "2"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_EQ(job->wait(), 0);
  EXPECT_THAT(job->out(), HasSubstr("[0:0] WORLD_SIZE=1\n"));
}

}  // namespace
}  // namespace ddp::test
