// The workers' environment is torchrun's: same names, same text form. Every variable of the list is
// compared, so a missing one and a surplus one are both seen.
#include <gmock/gmock.h>

#include <map>

#include "launcher/os/port.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

constexpr const char* kUuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

using Values = std::map<std::string, std::string>;

class LauncherEnvironment : public ProcessTest {
 protected:
  /// Starts the job in an empty environment but for `outer`; what rank sees, without `outer`.
  Values see(std::vector<std::string> flags, const Values& outer, int rank, int code = 0) {
    std::vector<std::string> arguments{"/usr/bin/env", "-i"};
    Values given = outer;
    given["DDP_TEST_MARKER"] = marker();
    arguments.push_back("DDP_TEST_MARKER=" + marker());
    for (const auto& [name, value] : outer)
      arguments.push_back(name + "=" + value);
    arguments.push_back(DDP_LAUNCH);
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    for (const char* const word : {DDP_FAKE_WORKER, "environment"})
      arguments.push_back(word);
    const auto job = start(Command{.arguments = arguments});
    EXPECT_EQ(job->wait(), code) << job->err();
    error_ = job->err();
    Values seen;
    const std::string prefix = "[0:" + std::to_string(rank) + "] ";
    for (const std::string& line : lines_of(job->out())) {
      if (!line.starts_with(prefix)) continue;
      const std::size_t split = line.find('=');
      const std::string name = line.substr(prefix.size(), split - prefix.size());
      const std::string value = line.substr(split + 1);
      if (!given.contains(name) || given.at(name) != value) seen[name] = value;
    }
    return seen;
  }
  std::string error_;
};

TEST_F(LauncherEnvironment, EqualsTorchrunsForEveryRank) {
  for (const int rank : {0, 1}) {
    Values seen = see({"--nproc-per-node", "2"}, {{"XDG_RUNTIME_DIR", scratch().string()}}, rank);
    const std::string number = std::to_string(rank);
    EXPECT_THAT(seen["MASTER_PORT"], MatchesRegex("[0-9]+"));
    EXPECT_GT(std::stoi(seen["MASTER_PORT"]), 0);
    EXPECT_THAT(seen["DDP_RUN_ID"], MatchesRegex("[0-9a-f]{32}"));
    EXPECT_THAT(seen["TORCHELASTIC_RUN_ID"], MatchesRegex(kUuid));
    EXPECT_THAT(seen["DDP_PROGRESS_FD"], MatchesRegex("[0-9]+"));
    EXPECT_THAT(seen["TORCHELASTIC_ERROR_FILE"],
                HasSubstr(scratch().string() + "/ddp/" + seen["DDP_RUN_ID"]));
    EXPECT_EQ(seen["DDP_AGENT_ID"], seen["DDP_RUN_ID"]);
    for (const char* const name : {"MASTER_PORT",
                                   "DDP_RUN_ID",
                                   "DDP_AGENT_ID",
                                   "DDP_JOB_START",
                                   "DDP_PROGRESS_FD",
                                   "TORCHELASTIC_RUN_ID",
                                   "TORCHELASTIC_ERROR_FILE"}) {
      seen.erase(name);
    }
    const Values expected{{"RANK", number},
                          {"LOCAL_RANK", number},
                          {"WORLD_SIZE", "2"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"GROUP_RANK", "0"},
                          {"GROUP_WORLD_SIZE", "1"},
                          {"ROLE_NAME", "default"},
                          {"ROLE_RANK", number},
                          {"ROLE_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"TORCHELASTIC_RESTART_COUNT", "0"},
                          {"TORCHELASTIC_MAX_RESTARTS", "0"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                          {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
                          {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                          {"PYTHONFAULTHANDLER", "1"},
                          {"OMP_NUM_THREADS", "1"},
                          {"DDP_ROUND", "0"}};
    EXPECT_EQ(seen, expected);
  }
  // Error files go after a good end.
  EXPECT_TRUE(std::filesystem::is_empty(scratch() / "ddp"));
}

TEST_F(LauncherEnvironment, OneWorkerGetsNoThreadLimit) {
  EXPECT_FALSE(see({}, {}, 0).contains("OMP_NUM_THREADS"));
}

TEST_F(LauncherEnvironment, TheUsersOwnValuesArePassedOn) {
  const Values seen = see({"--nproc-per-node", "2"},
                          {{"OMP_NUM_THREADS", "3"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"}},
                          0);
  EXPECT_FALSE(seen.contains("OMP_NUM_THREADS"));  // unchanged
  EXPECT_FALSE(seen.contains("TORCH_NCCL_ASYNC_ERROR_HANDLING"));
}

TEST_F(LauncherEnvironment, StaleVariablesOfAnOuterLauncherAreReplaced) {
  const Values seen = see({},
                          {{"RANK", "7"},
                           {"WORLD_SIZE", "9"},
                           {"MASTER_ADDR", "elsewhere"},
                           {"DDP_RUN_ID", "old"},
                           {"TORCHELASTIC_RESTART_COUNT", "4"}},
                          0);
  EXPECT_EQ(seen.at("RANK"), "0");
  EXPECT_EQ(seen.at("WORLD_SIZE"), "1");
  EXPECT_EQ(seen.at("MASTER_ADDR"), "127.0.0.1");
  EXPECT_NE(seen.at("DDP_RUN_ID"), "old");
  EXPECT_EQ(seen.at("TORCHELASTIC_RESTART_COUNT"), "0");
}

TEST_F(LauncherEnvironment, FlagsShowInTheirVariables) {
  const Values seen = see({"--role=trainer",
                           "--rdzv-id=job7",
                           "--master-addr=localhost",
                           "--max-restarts=0",
                           "--signals-to-handle=SIGTERM"},
                          {},
                          0);
  EXPECT_EQ(seen.at("ROLE_NAME"), "trainer");
  EXPECT_EQ(seen.at("TORCHELASTIC_RUN_ID"), "job7");
  EXPECT_EQ(seen.at("MASTER_ADDR"), "localhost");
  EXPECT_EQ(seen.at("TORCHELASTIC_SIGNALS_TO_HANDLE"), "SIGTERM");
}

TEST_F(LauncherEnvironment, VirtualLocalRankGivesOneDeviceEach) {
  const Values plain = see({"--nproc-per-node=2", "--virtual-local-rank"}, {}, 1);
  EXPECT_EQ(plain.at("LOCAL_RANK"), "0");
  EXPECT_EQ(plain.at("CUDA_VISIBLE_DEVICES"), "1");
  const Values cut =
      see({"--nproc-per-node=2", "--virtual-local-rank"}, {{"CUDA_VISIBLE_DEVICES", "3, 5"}}, 1);
  EXPECT_EQ(cut.at("CUDA_VISIBLE_DEVICES"), "5");
  see({"--nproc-per-node=2", "--virtual-local-rank"}, {{"CUDA_VISIBLE_DEVICES", "3"}}, 1, 2);
  EXPECT_THAT(error_, HasSubstr("CUDA_VISIBLE_DEVICES=3"));
  const Values hip =
      see({"--nproc-per-node=2", "--virtual-local-rank"}, {{"HIP_VISIBLE_DEVICES", "3, 5"}}, 1);
  EXPECT_EQ(hip.at("HIP_VISIBLE_DEVICES"), "5");
  EXPECT_EQ(hip.at("CUDA_VISIBLE_DEVICES"), "5");
}

TEST_F(LauncherEnvironment, AStandaloneJobHasARandomRunId) {
  const Values seen = see({"--standalone"}, {}, 0);
  EXPECT_THAT(seen.at("TORCHELASTIC_RUN_ID"), MatchesRegex(kUuid));
}

TEST_F(LauncherEnvironment, OneNodeWithAPortHasNoRunId) {
  const Values seen = see({"--master-port=" + std::to_string(launcher::free_port())}, {}, 0);
  EXPECT_EQ(seen.at("TORCHELASTIC_RUN_ID"), "none");
}

}  // namespace
}  // namespace ddp::test
