// What options, job file and node make of each other, without a process. The command of a worker is
// in worker_environment_test.cpp.
#include "launcher/plan/start/job_spec.h"
#include "common/job/resolve_job.h"
#include "launcher/plan/start/debug_flag.h"

#include <gmock/gmock.h>

#include <csignal>

#include "common/error.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Words = std::vector<std::string>;

JobSpec make(const Words& words, const Environment& environment = {}, NodeFacts facts = {4, 0}) {
  const Options options = parse_options(words, environment);
  return make_job_spec(options, resolve_job(nullptr, layer_overrides(options)), facts, environment);
}

std::string spec_problems(const Words& words,
                          const Environment& environment = {},
                          const NodeFacts& facts = {4, 0}) {
  try {
    (void)make(words, environment, facts);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(MakeJobSpec, SurvivorsNeedRoundsAndAStoreThatOutlivesRank0) {
  EXPECT_FALSE(make({"--max-restarts=1", "p"}).keeps_survivors);
  const JobSpec spec = make({"--restart=failed", "--max-restarts=1", "p"});
  EXPECT_TRUE(spec.keeps_survivors);
  EXPECT_THAT(spec.warnings, IsEmpty());
  EXPECT_THAT(make({"--restart=failed", "p"}).warnings,
              ElementsAre(HasSubstr("--restart: failed has no effect without rounds")));
  EXPECT_THAT(make({"--restart=failed", "--nnodes=1:2", "--rdzv-endpoint=a", "p"}).warnings,
              IsEmpty());
  EXPECT_THAT(spec_problems({"--restart=failed", "--max-restarts=1", "--store=worker", "p"}),
              HasSubstr("a store that rank 0 serves"));
}

TEST(MakeJobSpec, WrappersAreForRanksThatAreThere) {
  const JobSpec spec = make({"--nproc-per-node=2", "--wrap=1:gdb", "--wrap", "all:nice -n 5", "p"});
  ASSERT_EQ(spec.wrappers.size(), 2U);
  EXPECT_THAT(spec.wrappers[1].words, ElementsAre("nice", "-n", "5"));
  const std::string problems = spec_problems({"--wrap=0-1:gdb", "--wrap", "gdb", "p"});
  EXPECT_THAT(problems,
              AllOf(HasSubstr("--wrap: \"0-1:gdb\": there is no rank 1, the job has 0 to 0."),
                    HasSubstr("--wrap: \"gdb\": write RANKS:COMMAND")));
  EXPECT_EQ(make({"--nnodes=2", "--rdzv-endpoint=a", "--wrap=7:gdb", "p"}).wrappers.size(), 1U);
}

TEST(MakeJobSpec, OneRankOfNode0HasTheTerminal) {
  const JobSpec spec = make({"--nproc-per-node=3", "--max-restarts=2", "--debug=0:1", "-t3", "p"});
  EXPECT_EQ(spec.debug_rank, 1);
  EXPECT_EQ(spec.max_restarts, 0);
  EXPECT_EQ(spec.logs.progress, ProgressMode::off);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(plan_stream(spec.logs, spec.has_run_dir, rank, WorkerStream::output),
              (StreamPlan{.is_logged = true, .is_shown = false}));
  }
  const std::string timeout = "ddp.timeout=168h";
  EXPECT_THAT(make({"--debug=0", "ddp-worker"}).debug_arguments, ElementsAre(timeout));
  EXPECT_THAT(make({"--debug=0", "p"}).debug_arguments, IsEmpty());
  EXPECT_THAT(make({"ddp-worker"}).arguments, Not(Contains(timeout)));
  const Words nodes{"--nnodes=2", "--rdzv-endpoint=a"};
  EXPECT_EQ(make({nodes[0], nodes[1], "--node-rank=0", "--debug=0", "p"}).debug_rank, 0);
  for (const char* const other : {"--node-rank=1", "--role=x"}) {
    EXPECT_THAT(
        spec_problems({nodes[0], nodes[1], other, "--debug=0", "p"}),
        HasSubstr("Give it to the agent that is started by hand on node 0, with --node-rank 0"));
  }
  EXPECT_EQ(make({nodes[0], nodes[1], "--node-rank=1", "--debug=1:0", "p"}).debug_rank, 0);
  EXPECT_THAT(spec_problems({"--debug=1:0", "p"}), HasSubstr("there is no node 1"));
  EXPECT_THAT(spec_problems({"--debug=1", "p"}), HasSubstr("it has 0 to 0."));
  EXPECT_THAT(spec_problems({"--debug=all", "p"}), HasSubstr("write RANK, or NODE:LOCAL_RANK."));
}

TEST(MakeJobSpec, OnNode0ARankOfAnotherNodeMayHaveTheTerminal) {
  const Words node{"--nnodes=2", "--rdzv-endpoint=a", "--node-rank=0", "--nproc-per-node=2"};
  const auto with = [&](const std::string& rank) {
    Words words = node;
    words.insert(words.end(), {"--debug=" + rank, "p"});
    return make(words);
  };
  EXPECT_EQ(with("1").debug_rank, 1);
  const JobSpec local = with("1:0");
  ASSERT_TRUE(local.debug_elsewhere && !local.debug_rank && local.gives_terminal());
  EXPECT_EQ(local.debug_elsewhere->node_rank, 1);
  EXPECT_EQ(local.debug_elsewhere->rank, 0);
  EXPECT_EQ(local.max_restarts, 0);
  EXPECT_EQ(plan_stream(local.logs, local.has_run_dir, 0, WorkerStream::output),
            (StreamPlan{.is_logged = true, .is_shown = false}));
  ASSERT_TRUE(with("3").debug_elsewhere);
  EXPECT_EQ(with("3").debug_elsewhere->node_rank, std::nullopt);
  EXPECT_EQ(with("3").debug_elsewhere->rank, 3);
  Words words = node;
  words.insert(words.end(), {"--debug=2:0", "p"});
  EXPECT_THAT(spec_problems(words), HasSubstr("--debug=2:0: there is no node 2, the job has 2"));
}

TEST(FindDebugged, ByTheNodeRankAskedForOrByTheRankInTheJob) {
  const std::vector<DebugNode> nodes{{0, 2}, {2, 1}, {std::nullopt, 3, true}};
  const auto find = [&](std::optional<int> node_rank, int rank) {
    const auto found = find_debugged({node_rank, rank}, nodes);
    const auto* const place = std::get_if<DebuggedRank>(&found);
    return place != nullptr
               ? std::to_string(place->node_rank) + ":" + std::to_string(place->local_rank)
               : std::get<std::string>(found);
  };
  EXPECT_EQ(find(std::nullopt, 2), "1:0");
  EXPECT_THAT(find(std::nullopt, 3), HasSubstr("the agent of node 2 gives its own terminal"));
  EXPECT_EQ(find(std::nullopt, 6), "--debug=6: there is no rank 6, the job has 0 to 5.");
  EXPECT_THAT(find(1, 0), HasSubstr("--debug=1:0: that node has not joined."));
  EXPECT_THAT(find(2, 1),
              HasSubstr("--debug=2:1: there is no local rank 1 on that node, it has 0 to 0."));
  const std::vector<DebugNode> moved{{0, 2}, {2, 1}};
  EXPECT_EQ(std::get<DebuggedRank>(find_debugged({2, 0}, moved)), (DebuggedRank{1, 0}));
}

TEST(MakeJobSpec, SaysLittleForAProgramAlone) {
  const JobSpec spec = make({"dir/my.prog", "a"});
  EXPECT_EQ(spec.entry, "dir/my.prog");
  EXPECT_THAT(spec.arguments, ElementsAre("dir/my.prog", "a"));
  EXPECT_FALSE(spec.takes_job_file);
  EXPECT_FALSE(spec.script);
  EXPECT_FALSE(spec.has_run_dir);
  EXPECT_EQ(spec.nproc, 1);
  EXPECT_EQ(spec.master_addr, "127.0.0.1");
  EXPECT_EQ(spec.master_port, 0);
  EXPECT_EQ(spec.grace, 30s);
  EXPECT_THAT(spec.listed_signals, ElementsAre(SIGTERM, SIGINT, SIGHUP, SIGQUIT));
  EXPECT_EQ(spec.job.text("name"), "my");
  EXPECT_EQ(spec.job.text("checkpoint.resume"), "never");
  EXPECT_THAT(spec.warnings, IsEmpty());
}

TEST(MakeJobSpec, NamesAllProblemsAtOnce) {
  EXPECT_THAT(spec_problems({"--nnodes=2", "--node-rank=2", "--rdzv-conf=a", "p"}),
              AllOf(HasSubstr("--node-rank: 2 is not the rank of a node of this job: it has 2"),
                    HasSubstr("--rdzv-conf: a: not KEY=VALUE")));
  EXPECT_THAT(spec_problems({"-m", "bin/ddp-worker"}), HasSubstr("is not a Python module"));
  EXPECT_THAT(spec_problems({"p"}, {{"PET_NNODES", "3:2"}}), HasSubstr("PET_NNODES: 3:2 is no"));
  for (const char* const nodes : {"0", "a", "1:", ":2", "2:1", "-1", "1.5", "1000000"})
    EXPECT_THAT(spec_problems({std::string("--nnodes=") + nodes, "p"}),
                HasSubstr("is not a number of"));
}

TEST(MakeJobSpec, FlagsWithoutEffectAreOneWarningEach) {
  EXPECT_THAT(make({"--run-path", "--start-method=fork", "p"}).warnings,
              ElementsAre(HasSubstr("--run-path has no effect"),
                          HasSubstr("--start-method has no effect")));
  EXPECT_THAT(make({"--start-method=spawn", "--monitor-interval=0.1", "p"}).warnings, IsEmpty());
  EXPECT_THAT(make({"p"}, {{"PET_MONITOR_INTERVAL", "5"}}).warnings,
              ElementsAre(HasSubstr("PET_MONITOR_INTERVAL has no effect")));
}

TEST(MakeJobSpec, APlugInForLogsIsRefusedAndTorchsOwnIsNot) {
  EXPECT_THAT(spec_problems({"--logs-specs=DOES_NOT_EXIST", "p"}),
              HasSubstr("--logs-specs: DOES_NOT_EXIST: Python plug-ins are not loaded here"));
  EXPECT_THAT(make({"--logs-specs=default", "p"}).warnings, IsEmpty());
}

TEST(MakeJobSpec, TorchsVariableGivesTheStoreToAWorkerUnlessTheFlagSaysOtherwise) {
  const Environment environment{{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}};
  EXPECT_TRUE(make({"p"}, environment).store_in_worker);
  EXPECT_FALSE(make({"--store=agent", "p"}, environment).store_in_worker);
  EXPECT_TRUE(make({"--store=worker", "p"}).store_in_worker);
  EXPECT_FALSE(make({"p"}).store_in_worker);
}

TEST(MakeJobSpec, AnyProgramsNameGivesARunAName) {
  EXPECT_EQ(make({"null.py"}).job.text("name"), "null-run");
  EXPECT_EQ(make({"./latest"}).job.text("name"), "latest-run");
  EXPECT_EQ(make({std::string(200, 'p')}).job.text("name"), std::string(64, 'p'));
}

TEST(MakeJobSpec, AHangIsNotFoundInNoTime) {
  EXPECT_THAT(spec_problems({"--hang-timeout=0s", "p"}),
              HasSubstr("--hang-timeout: a worker cannot"));
  EXPECT_EQ(spec_problems({"--hang-timeout=1s", "p"}), "");
}

TEST(MakeJobSpec, OneNodeMayBeWrittenAsARange) {
  EXPECT_EQ(spec_problems({"--nnodes=1:1", "p"}), "");
  EXPECT_EQ(make({"--nnodes=1:1", "p"}).master_port, 0);
}

TEST(MakeJobSpec, SeveralNodesMeetAtAKnownPort) {
  const JobSpec fixed = make({"--nnodes=2", "--node-rank=1", "--master-addr=a", "p"});
  EXPECT_EQ(fixed.min_nodes, 2);
  EXPECT_EQ(fixed.max_nodes, 2);
  EXPECT_EQ(fixed.node_rank, 1);
  EXPECT_EQ(fixed.master_addr, "a");
  EXPECT_EQ(fixed.master_port, 29500);
  const JobSpec elastic = make({"--nnodes=1:3",
                                "--rdzv-backend=c10d",
                                "--rdzv-endpoint=[fe80::1]",
                                "--rdzv-conf=join_timeout=7,last_call_timeout=2,is_host=true",
                                "p"});
  EXPECT_EQ(elastic.min_nodes, 1);
  EXPECT_EQ(elastic.max_nodes, 3);
  EXPECT_EQ(elastic.node_rank, std::nullopt);
  EXPECT_EQ(elastic.master_addr, "fe80::1");
  EXPECT_EQ(elastic.master_port, 29400);
  EXPECT_EQ(elastic.join_timeout, 7s);
  EXPECT_EQ(elastic.last_call, 2s);
  EXPECT_EQ(elastic.is_host, true);
  EXPECT_TRUE(elastic.lost_nodes_are_free);
  EXPECT_FALSE(fixed.lost_nodes_are_free);
  EXPECT_FALSE(make({"--nnodes=1:3", "--max-restarts=0", "p"}).lost_nodes_are_free);
  EXPECT_TRUE(make({"--nnodes=2", "--replace-timeout=1min", "p"}).lost_nodes_are_free);
  EXPECT_THAT(spec_problems({"--nnodes=2", "--master-port=0", "p"}), HasSubstr("cannot know"));
  EXPECT_THAT(spec_problems({"--nnodes=2", "--standalone", "p"}), HasSubstr("one node, but"));
  EXPECT_THAT(spec_problems({"--nnodes=2", "--rdzv-conf=timeout=soon", "p"}),
              HasSubstr("timeout=soon: not a whole number"));
}

TEST(MakeJobSpec, AWordForTheNumberOfWorkersIsAnswered) {
  const JobSpec spec = make({"--nproc-per-node=auto", "p"}, {}, NodeFacts{6, 2});
  EXPECT_THAT(spec.warnings, ElementsAre("workers: 2, one per GPU (auto)"));
  EXPECT_THAT(make({"--nproc-per-node=cpu", "p"}, {}, NodeFacts{6, 2}).warnings,
              ElementsAre("workers: 6, one per CPU that we may use (cpu)"));
  EXPECT_THAT(spec_problems({"--nproc-per-node=gpu", "p"}),
              HasSubstr("no GPU device files (/dev/nvidia0, ...). ddp-launch doctor looks"));
  NodeFacts asked;
  asked.gpu_problem = "the driver is asleep";
  EXPECT_THAT(
      spec_problems({"--nproc-per-node=gpu", "p"}, {}, asked),
      HasSubstr("no GPU can be used on this node: the driver is asleep. ddp-launch doctor"));
  NodeFacts by_torch;
  by_torch.torch_devices = 3;
  for (const auto& [word, kind] : {std::pair("gpu", "GPU"), {"auto", "GPU"}, {"xpu", "XPU"}}) {
    EXPECT_THAT(make({std::string("--nproc-per-node=") + word, "p"}, {}, by_torch).warnings,
                ElementsAre(std::string("workers: 3, one per ") + kind + " (" + word + ")"));
  }
  by_torch.torch_kind = "xpu";
  EXPECT_EQ(device_of(make({"--nproc-per-node=xpu", "p"}, {}, by_torch), 2), "xpu:2");
  NodeFacts none;
  none.torch_problem = "the torch of p sees none";
  EXPECT_THAT(spec_problems({"--nproc-per-node=xpu", "p"}, {}, none),
              HasSubstr("--nproc-per-node: xpu: the torch of p sees none. Give a number"));
  none.cpus = 2;
  EXPECT_THAT(
      make({"--nproc-per-node=auto", "p"}, {}, none).warnings,
      ElementsAre("workers: 2, one per CPU that we may use (auto; the torch of p sees none)"));
  EXPECT_THAT(spec_problems({"--nproc-per-node=gpu", "p"}, {}, none),
              HasSubstr("no GPU can be used on this node: the torch of p sees none. ddp-launch"));
}

TEST(MakeJobSpec, AnEndpointIsReadWhole) {
  const auto endpoint = [](const std::string& text) {
    const JobSpec spec = make({"--rdzv-endpoint=" + text, "p"});
    return spec.master_addr + " " + std::to_string(spec.master_port);
  };
  EXPECT_EQ(endpoint("node0"), "node0 0");
  EXPECT_EQ(endpoint("node0:0"), "node0 0");
  EXPECT_EQ(endpoint("node0:65535"), "node0 65535");
  EXPECT_EQ(endpoint("[fe80::1]:7"), "fe80::1 7");
  EXPECT_EQ(endpoint(":29400"), "127.0.0.1 29400");
  EXPECT_EQ(make({"--master-addr=[::1]", "p"}).master_addr, "::1");
  for (const char* const bad : {"h:", "h:x", "h:65536", "h:-1", "h:1x", "[::1"})
    EXPECT_THAT(spec_problems({std::string("--rdzv-endpoint=") + bad, "p"}), HasSubstr(bad)) << bad;
  EXPECT_EQ(make({"--master-addr=fe80::1", "p"}).master_addr, "fe80::1");
  EXPECT_THAT(spec_problems({"--master-addr=h:29500", "p"}),
              HasSubstr("h:29500: holds a port. Give it as --master-port=PORT."));
}

TEST(MakeJobSpec, WithoutAMasterAddressLoopbackIsTakenAsThisNodeHasIt) {
  NodeFacts facts{4, 0};
  facts.loopback = "::1";
  EXPECT_EQ(make({"p"}, {}, facts).master_addr, "::1");
  EXPECT_EQ(make({"--standalone", "--master-addr=far", "p"}, {}, facts).master_addr, "::1");
  EXPECT_EQ(make({"--rdzv-endpoint=:29400", "p"}, {}, facts).master_addr, "::1");
  EXPECT_EQ(make({"--master-addr=127.0.0.1", "p"}, {}, facts).master_addr, "127.0.0.1");
  EXPECT_EQ(make({"--master-addr=localhost", "p"}, {}, facts).master_addr, "::1");
  EXPECT_EQ(make({"--master-addr=localhost", "p"}).master_addr, "localhost");
  EXPECT_EQ(make({"--rdzv-id=j", "p"}, {}, facts).lock_name, "run j at [::1]:0 as node 0");
  EXPECT_THAT(
      make({"--nnodes=2", "p"}, {}, facts).warnings,
      ElementsAre("no --master-addr: taken is ::1, so all nodes are agents of this machine"));
}

TEST(MakeJobSpec, AStandaloneJobTakesAFreePortAndItsOwnId) {
  const JobSpec spec = make({"--standalone", "--master-addr=far", "--master-port=7", "p"});
  EXPECT_EQ(spec.master_addr, "127.0.0.1");
  EXPECT_EQ(spec.master_port, 0);
  EXPECT_TRUE(spec.has_random_user_run_id);
}

// L10
TEST(MakeJobSpec, OnlyARunIdOfTheUsersIsLocked) {
  EXPECT_EQ(make({"p"}).lock_name, "");
  EXPECT_EQ(make({"--rdzv-id=none", "p"}).lock_name, "");
  EXPECT_EQ(make({"--standalone", "--rdzv-id=j", "p"}).lock_name, "");
  EXPECT_EQ(make({"--rdzv-id=j", "p"}).lock_name, "run j at 127.0.0.1:0 as node 0");
  EXPECT_EQ(make({"--rdzv-id=j", "--master-port=7", "p"}).lock_name,
            "run j at 127.0.0.1:7 as node 0");
  EXPECT_EQ(make({"--rdzv-id=j", "--rdzv-backend=c10d", "--rdzv-endpoint=h:8", "p"}).lock_name,
            "run j at h:8 as node 0");
}

TEST(MakeJobSpec, SignalsThatCannotBeHandledAreLeftOut) {
  const JobSpec spec = make({"--signals-to-handle=TERM, SIGUSR1,KILL,SIGSTOP,SIGWHAT", "p"});
  EXPECT_THAT(spec.listed_signals, ElementsAre(SIGTERM, SIGUSR1));
  EXPECT_THAT(spec.warnings,
              ElementsAre(HasSubstr("KILL is not a signal"),
                          HasSubstr("SIGSTOP is not a signal"),
                          HasSubstr("--signals-to-handle: SIGWHAT is not a signal")));
}

TEST(MakeJobSpec, VirtualLocalRanksNeedADeviceEach) {
  const Words words{"--virtual-local-rank", "--nproc-per-node=3", "p"};
  EXPECT_EQ(spec_problems(words), "");
  EXPECT_EQ(spec_problems(words, {{"CUDA_VISIBLE_DEVICES", "4,5,6"}}), "");
  EXPECT_THAT(spec_problems(words, {{"CUDA_VISIBLE_DEVICES", "4,5"}}),
              HasSubstr("3 workers, but CUDA_VISIBLE_DEVICES=4,5 names 2"));
}

// S4
TEST(MakeJobSpec, AGpuForEachWorkerIsRefusedWhenTheyDoNotSuffice) {
  NodeFacts facts{4, 1};
  facts.devices.resize(2);
  const Environment environment{{"CUDA_VISIBLE_DEVICES", "0,7"}};
  const auto problems = [&](const Words& words) {
    try {
      (void)make(words, environment, facts);
      return std::string();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
  };
  facts.refused_gpu = "7";
  EXPECT_THAT(problems({"--virtual-local-rank", "--nproc-per-node=2", "p"}),
              AllOf(HasSubstr("cannot give each of 2 workers a GPU: 1 visible under "
                              "CUDA_VISIBLE_DEVICES=0,7. This node has: 0 (/dev/nvidia0), 1 ("),
                    HasSubstr("Start fewer workers")));
  EXPECT_THAT(make({"p"}, environment, facts).warnings,
              ElementsAre(HasSubstr("CUDA stops at 7, which is not a GPU of this node")));
  EXPECT_EQ(problems({"--nproc-per-node=2", "p"}), "");  // it has not asked for any
  facts.gpus = 0;
  EXPECT_THAT(problems({"--nproc-per-node=gpu", "p"}),
              HasSubstr("--nproc-per-node: gpu: no GPU can be used on this node: "
                        "CUDA_VISIBLE_DEVICES=0,7 leaves none of this"));
}

TEST(MakeJobSpec, ADeviceThatIsNotThereIsSaidWithTheCause) {
  const auto problem = [](const NodeFacts& facts, const Environment& environment = {}) {
    return spec_problems({"--nproc-per-node=2", "job.yaml", "data.batch_per_rank=8", "device=cuda"},
                         environment,
                         facts);
  };
  NodeFacts facts{4, 0};
  EXPECT_EQ(problem(facts),
            "device=cuda: device: cuda: no GPU can be used on this node: this node has no GPU "
            "device files (/dev/nvidia0, ...). ddp-launch doctor looks further. To go without, "
            "give device=auto or cpu.");
  facts.gpu_problem = "there is no NVIDIA driver";
  EXPECT_THAT(problem(facts), HasSubstr("on this node: there is no NVIDIA driver. ddp-launch"));
  facts.gpu_problem = "";
  facts.devices.resize(2);
  EXPECT_THAT(problem(facts, {{"CUDA_VISIBLE_DEVICES", ""}}),
              HasSubstr("node: CUDA_VISIBLE_DEVICES is empty, which hides all GPUs. ddp-launch"));
  EXPECT_THAT(problem(facts, {{"CUDA_VISIBLE_DEVICES", "7"}}),
              HasSubstr("CUDA_VISIBLE_DEVICES=7 leaves none of this node's GPUs: 0 (/dev/nvidia0"));
  EXPECT_THAT(spec_problems({"--nproc-per-node=gpu", "p"}, {}, {4, 0}),
              HasSubstr("--nproc-per-node: gpu: no GPU can be used on this node: "));
}

TEST(MakeJobSpec, WorkersShareAGpuWhereGlooAddsGradients) {
  const auto refusal = [](const Words& keys, int gpus) {
    Words words{"--nproc-per-node=2", "job.yaml", "data.batch_per_rank=8", "device=cuda"};
    words.insert(words.end(), keys.begin(), keys.end());
    NodeFacts facts{4, gpus};
    facts.devices.resize(static_cast<std::size_t>(gpus));
    const Options options = parse_options(words, {});
    try {
      const JobSpec spec = make_job_spec(
          options, resolve_job(nullptr, layer_overrides(options)), std::move(facts), {});
      return std::string();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal({"backend=gloo"}, 1), "");
  EXPECT_THAT(refusal({"backend=gloo"}, 0), HasSubstr("no GPU can be used"));
  EXPECT_THAT(refusal({}, 1), HasSubstr("each of 2 workers a GPU: 1 there"));
  EXPECT_EQ(refusal({}, 2), "");
}

TEST(MakeJobSpec, AJobFileGivesTheWorkerItsArgumentsAndARunDirectory) {
  const Options options = parse_options({"--nproc-per-node=2", "job.yaml", "seed=3"}, {});
  Options with_batch = options;
  with_batch.overrides.push_back({"data.batch_per_rank", "8", "test"});
  JobValues job = resolve_job(nullptr, layer_overrides(with_batch));
  const JobSpec spec = make_job_spec(options, std::move(job), NodeFacts{}, {});
  EXPECT_EQ(spec.entry, "ddp-worker");
  EXPECT_TRUE(spec.takes_job_file);
  EXPECT_TRUE(spec.has_run_dir);
  EXPECT_EQ(spec.nproc, 2);
  EXPECT_THAT(spec.arguments, ElementsAre("ddp-worker", "job.yaml", "seed=3"));
  EXPECT_EQ(spec.job.text("checkpoint.resume"), "auto");
}

TEST(MakeJobSpec, TheWorkerIsToldWhomToTrustAndNoSecrets) {
  const JobSpec spec =
      make({"--trust-checkpoint", "job.yaml", "data.batch=8", "launch.env.A=s3cret"});
  EXPECT_TRUE(spec.job.flag("checkpoint.trust"));
  EXPECT_THAT(spec.arguments,
              ElementsAre("ddp-worker", "job.yaml", "data.batch=8", "checkpoint.trust=true"));
  EXPECT_EQ(find_variable(spec.environment, "A"), "s3cret");
  EXPECT_THAT(spec_problems({"job.yaml", "data.batch=8", "launch.env.A=***"}),
              HasSubstr("launch.env.A=***: A: *** stands for a value that was not written down"));
}

TEST(MakeJobSpec, AnOutputGivesAnyProgramARunDirectory) {
  EXPECT_TRUE(make({"--output=x", "p"}).has_run_dir);
}

TEST(MakeJobSpec, ARunsNameComesFromTheProgram) {
  EXPECT_EQ(make({"/opt/a b!/train_1-x.py"}).job.text("name"), "train_1-x");
  EXPECT_EQ(make({"./!!"}).job.text("name"), "run");
}

TEST(LayerOverrides, FlagsBeatOverridesAndThoseBeatVariables) {
  const Environment environment{{"PET_NPROC_PER_NODE", "1"}};
  EXPECT_EQ(make({"p"}, environment).nproc, 1);
  const auto nproc = [&](const Words& words) {
    Options options = parse_options(words, environment);
    options.overrides.push_back({"data.batch_per_rank", "8", "test"});
    return resolve_job(nullptr, layer_overrides(options)).setting("launch.nproc_per_node").value;
  };
  EXPECT_EQ(nproc({"j.yaml", "launch.nproc_per_node=2"}), JobValue(std::int64_t{2}));
  EXPECT_EQ(nproc({"--nproc-per-node=3", "j.yaml", "launch.nproc_per_node=2"}),
            JobValue(std::int64_t{3}));
}

TEST(DeviceOf, EveryWorkerTakesTheGpuOfItsLocalRankWhereThereIsOne) {
  const NodeFacts gpus{4, 2};
  EXPECT_EQ(device_of(make({"dir/ddp-worker"}, {}, gpus), 0), "cuda:0");
  EXPECT_EQ(device_of(make({"dir/ddp-worker"}, {}, NodeFacts{4, 0}), 0), "cpu");
  EXPECT_EQ(device_of(make({"other"}, {}, gpus), 1), "cuda:1");
  EXPECT_EQ(device_of(make({"other"}, {}, gpus), 2), "cpu");
}

TEST(DeviceOf, AJobFileThatAsksForGpusGetsTheirNumbers) {
  const auto device =
      [](const std::string& text, int gpus, int local_rank, const Words& more = {}) {
        Words words{"job.yaml", "data.batch_per_rank=8", "device=" + text};
        words.insert(words.end(), more.begin(), more.end());
        NodeFacts facts{4, gpus};
        facts.devices.resize(static_cast<std::size_t>(gpus));
        return device_of(make(words, {}, facts), local_rank);
      };
  EXPECT_EQ(device("auto", 2, 1), "cuda:1");
  EXPECT_EQ(device("cuda", 2, 1), "cuda:1");
  EXPECT_EQ(device("cuda:1", 2, 0), "cuda:1");
  EXPECT_EQ(device("cpu", 2, 1), "cpu");
  EXPECT_EQ(device("auto", 0, 1), "cpu");
  // Ranks share GPUs there.
  EXPECT_EQ(device("cuda", 2, 3, {"backend=gloo"}), "cuda:1");
  EXPECT_EQ(device("auto", 1, 1, {"backend=gloo"}), "cuda:0");
  // A program in place of ddp-worker reads the same file.
  EXPECT_EQ(device("cpu", 2, 1, {"launch.program=./own"}), "cpu");
}

TEST(JobSpec, AProgramThatTakesAJobFileIsTreatedAsDdpWorkerAndAScriptIsNot) {
  const auto is_own = [](const Words& words) { return make(words).takes_job_file; };
  EXPECT_TRUE(is_own({"job.yaml", "data.batch_per_rank=8"}));
  EXPECT_TRUE(is_own({"job.yaml", "data.batch_per_rank=8", "launch.program=./tiny"}));
  EXPECT_FALSE(is_own({"job.yaml", "data.batch_per_rank=8", "launch.program=train.py"}));
  EXPECT_FALSE(is_own({"job.yaml", "data.batch_per_rank=8", "launch.program=./run.sh"}));
  EXPECT_FALSE(is_own({"--no-python", "./tiny", "job.yaml"}));
}

}  // namespace
}  // namespace ddp::launcher
