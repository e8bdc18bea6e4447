#include "launcher/plan/start/worker_environment.h"
#include "common/job/resolve_job.h"

#include <gmock/gmock.h>

#include "common/error.h"

namespace ddp::launcher {
namespace {

JobSpec spec_of(const std::vector<std::string>& words,
                const Environment& environment,
                NodeFacts facts) {
  const Options options = parse_options(words, environment);
  return make_job_spec(options, resolve_job(nullptr, layer_overrides(options)), facts, environment);
}

Placement rank_of_two(int rank) {
  return place(std::vector<int>{2}, std::vector<int>{0}, 0)[static_cast<std::size_t>(rank)];
}

Environment added(const JobSpec& spec, int rank = 0) {
  return added_environment(spec, rank_of_two(rank), RoundFacts(), "", -1);
}

TEST(WorkerArguments, OldLaunchersSpelledTheLocalRankWithAnUnderscore) {
  const JobSpec spec = spec_of({"--append-local-rank=underscore", "prog", "x"}, {}, {});
  EXPECT_EQ(worker_arguments(spec, Placement{})[1], "--local_rank=0");
}

TEST(WorkerEnvironment, OnRocmTheListOfHipCounts) {
  const auto devices = [](const Environment& lists) {
    const JobSpec spec =
        spec_of({"--nproc-per-node=2", "--virtual-local-rank", "p"}, lists, NodeFacts());
    const Environment all = added(spec, 1);
    return find_variable(all, "CUDA_VISIBLE_DEVICES").value_or("-") + " " +
           find_variable(all, "HIP_VISIBLE_DEVICES").value_or("-");
  };
  EXPECT_EQ(devices({}), "1 -");
  EXPECT_EQ(devices({{"CUDA_VISIBLE_DEVICES", "3, 5"}}), "5 -");
  EXPECT_EQ(devices({{"CUDA_VISIBLE_DEVICES", "3,5"}, {"HIP_VISIBLE_DEVICES", "2, 7"}}), "7 7");
  EXPECT_EQ(devices({{"CUDA_VISIBLE_DEVICES", "3,5"}, {"HIP_VISIBLE_DEVICES", ""}}), "5 -");
  const std::vector<std::string> words{"--nproc-per-node=2", "--virtual-local-rank", "p"};
  const Environment short_list{{"CUDA_VISIBLE_DEVICES", "3,5"}, {"HIP_VISIBLE_DEVICES", "2"}};
  try {
    spec_of(words, short_list, NodeFacts());
    FAIL() << "one device for two workers";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("HIP_VISIBLE_DEVICES=2 names 1"));
  }
}

TEST(WorkerEnvironment, OurWorkerGetsItsShareOfTheCpus) {
  const NodeFacts facts{8, 0};
  EXPECT_EQ(added(spec_of({"ddp-worker"}, {}, facts)).at("OMP_NUM_THREADS"), "4");
  EXPECT_EQ(added(spec_of({"ddp-worker"}, {}, NodeFacts{1, 0})).at("OMP_NUM_THREADS"), "1");
  JobSpec one_machine = spec_of({"--nnodes=2", "ddp-worker"}, {}, facts);
  one_machine.is_one_machine = true;  // both agents are there
  const Placement rank = place(std::vector<int>{2, 2}, std::vector<int>{0, 0}, 0).front();
  EXPECT_EQ(added_environment(one_machine, rank, RoundFacts(), "", -1).at("OMP_NUM_THREADS"), "2");
  EXPECT_FALSE(
      added(spec_of({"ddp-worker"}, {}, facts)).contains("TORCH_NCCL_ASYNC_ERROR_HANDLING"));
  EXPECT_EQ(added(spec_of({"other"}, {}, facts)).at("OMP_NUM_THREADS"), "1");
  EXPECT_FALSE(
      added(spec_of({"other"}, {{"OMP_NUM_THREADS", "3"}}, facts)).contains("OMP_NUM_THREADS"));
}

TEST(WorkerEnvironment, OnATerminalProgramsAreToldWhatFitsBehindTheirPrefix) {
  const auto columns = [](int width, const Environment& user) -> std::string {
    RoundFacts facts;
    facts.columns = width;
    facts.rows = 40;
    const Environment all =
        added_environment(spec_of({"train.py"}, user, {}), rank_of_two(1), facts, "", -1);
    return find_variable(all, "COLUMNS").value_or("-") + "x" +
           find_variable(all, "LINES").value_or("-");
  };
  EXPECT_EQ(columns(100, {}), "94x40");
  EXPECT_EQ(columns(0, {}), "-x-");
  EXPECT_EQ(columns(5, {}), "-x-");
  EXPECT_EQ(columns(100, {{"COLUMNS", "70"}}), "-x-");
}

TEST(WorkerEnvironment, PythonIsToPrintItsStacksUnlessTheUserSaysOtherwise) {
  const std::string name = "PYTHONFAULTHANDLER";
  const NodeFacts facts{8, 0};
  EXPECT_EQ(added(spec_of({"train.py"}, {}, facts)).at(name), "1");
  EXPECT_FALSE(added(spec_of({"train.py"}, {{name, "0"}}, facts)).contains(name));
  EXPECT_FALSE(added(spec_of({"train.py"}, {{name, ""}}, facts)).contains(name));
  EXPECT_FALSE(added(spec_of({"ddp-worker"}, {}, facts)).contains(name));
}

TEST(WorkerEnvironment, TheFlightRecorderWritesIntoTheRunDirectoryUnlessTheUserSaysWhere) {
  const std::string name = "TORCH_FR_DUMP_TEMP_FILE";
  const std::string old_name = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE";
  const auto place_of = [](const JobSpec& spec, const std::filesystem::path& run_dir) {
    RoundFacts facts;
    facts.run_dir = run_dir;
    facts.round = 2;
    return added_environment(spec, rank_of_two(0), facts, "", -1);
  };
  const JobSpec plain = spec_of({"p"}, {}, {});
  EXPECT_EQ(place_of(plain, "/runs/a").at(name), "/runs/a/logs/round-2/nccl-trace-rank-");
  EXPECT_FALSE(place_of(plain, "").contains(name)) << "no run directory";
  for (const std::string& users : {name, old_name}) {
    EXPECT_FALSE(place_of(spec_of({"p"}, {{users, "/x"}}, {}), "/runs/a").contains(name));
    const Environment said = place_of(
        spec_of({"job.yaml", "data.batch_per_rank=8", "launch.env={" + users + ": /x}"}, {}, {}),
        "/runs/a");
    EXPECT_EQ(said.at(users), "/x");
    EXPECT_EQ(said.contains(name), users == name);
  }
}

TEST(WorkerEnvironment, TheTimeOfTheJobBeganWithItsAgentWhateverTheRound) {
  RoundFacts facts;
  facts.round = 3;
  facts.job_start = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(12'345));
  const JobSpec spec = spec_of({"p"}, {}, {});
  EXPECT_EQ(added_environment(spec, rank_of_two(0), facts, "", -1).at("DDP_JOB_START"), "12345");
}

TEST(WorkerEnvironment, VariablesThatAnOuterLauncherSetForItsWorkerAreGone) {
  const JobSpec spec = spec_of(
      {"p"},
      {{"DDP_RUN_DIR", "/old"}, {"DDP_PROGRESS_FD", "9"}, {"DDP_TOKEN", "t"}, {"KEPT", "1"}},
      {});
  const Environment whole = worker_environment(spec, added(spec));
  EXPECT_FALSE(whole.contains("DDP_RUN_DIR"));
  EXPECT_FALSE(whole.contains("DDP_TOKEN"));
  EXPECT_FALSE(whole.contains("DDP_PROGRESS_FD"));
  EXPECT_EQ(whole.at("KEPT"), "1");
}

TEST(WorkerEnvironment, ArgumentsAreTemplatesAndTheLocalRankComesFirst) {
  const JobSpec spec = spec_of({"--append-local-rank", "prog", "${local_rank}", "$$x"}, {}, {});
  EXPECT_EQ(worker_arguments(spec, rank_of_two(1)),
            (std::vector<std::string>{"prog", "--local-rank=1", "1", "$x"}));
}

TEST(WorkerEnvironment, TheArgumentsOfAJobFileAreNoTemplates) {
  const Options options =
      parse_options({"dir$$x/j.yaml", "output=$local_rank", "data.batch=8"}, {});
  JobValues job = resolve_job(nullptr, layer_overrides(options));
  const JobSpec spec = make_job_spec(options, std::move(job), {}, {});
  const std::vector<std::string> arguments = worker_arguments(spec, rank_of_two(1));
  EXPECT_EQ(arguments, spec.arguments);
}

TEST(JobSpec, PythonRunsScriptsAndModules) {
  EXPECT_EQ(spec_of({"a.py", "x"}, {}, {}).arguments,
            (std::vector<std::string>{"python3", "-u", "a.py", "x"}));
  EXPECT_EQ(spec_of({"-m", "pkg"}, {}, {}).arguments,
            (std::vector<std::string>{"python3", "-u", "-m", "pkg"}));
  EXPECT_EQ(spec_of({"--no-python", "a.py"}, {}, {}).arguments, (std::vector<std::string>{"a.py"}));
  EXPECT_THROW(spec_of({"-m", "--no-python", "pkg"}, {}, {}), UsageError);
}

TEST(JobSpec, WordsForTheNumberOfWorkers) {
  EXPECT_EQ(spec_of({"--nproc-per-node=auto", "p"}, {}, NodeFacts{6, 0}).nproc, 6);
  EXPECT_EQ(spec_of({"--nproc-per-node=auto", "p"}, {}, NodeFacts{6, 2}).nproc, 2);
  EXPECT_EQ(spec_of({"--nproc-per-node=cpu", "p"}, {}, NodeFacts{6, 2}).nproc, 6);
  EXPECT_EQ(spec_of({"--nproc-per-node=gpu", "p"}, {}, NodeFacts{6, 2}).nproc, 2);
  EXPECT_THROW(spec_of({"--nproc-per-node=gpu", "p"}, {}, NodeFacts{6, 0}), UsageError);
}

TEST(JobSpec, SingleNodeWithoutAnIdHasARandomId) {
  const auto is_random = [](const std::vector<std::string>& flags) {
    std::vector<std::string> words = flags;
    words.emplace_back("p");
    return spec_of(words, {}, {}).has_random_user_run_id;
  };
  EXPECT_TRUE(is_random({}));
  EXPECT_TRUE(is_random({"--standalone"}));
  EXPECT_TRUE(is_random({"--master-addr=127.0.0.1"}));
  EXPECT_FALSE(is_random({"--rdzv-id=job7"}));
  EXPECT_FALSE(is_random({"--master-port=29400"}));
  EXPECT_FALSE(is_random({"--rdzv-endpoint=127.0.0.1:29400"}));
  EXPECT_FALSE(is_random({"--rdzv-backend=c10d"}));
  EXPECT_FALSE(is_random({"--nnodes=1:2"}));
}

TEST(JobSpec, TheRankOfANodeCountsWithEveryBackend) {
  EXPECT_EQ(spec_of({"--nnodes=2",
                     "--node-rank=1",
                     "--rdzv-backend=c10d",
                     "--rdzv-endpoint=127.0.0.1:29400",
                     "p"},
                    {},
                    {})
                .node_rank,
            1);
}

TEST(JobSpec, DetailsOfC10dAreTakenWithoutEffect) {
  const std::vector<std::string> words{"--nnodes=2",
                                       "--rdzv-backend=c10d",
                                       "--rdzv-endpoint=127.0.0.1:29400",
                                       "--rdzv-conf=cas_backoff_max_seconds=0.5",
                                       "p"};
  EXPECT_THAT(spec_of(words, {}, {}).warnings,
              testing::Contains("--rdzv-conf: cas_backoff_max_seconds has no effect here"));
}

TEST(JobSpec, TheLimitOfUninterruptibleSleepsIsTorchsVariable) {
  const auto limit = [](const std::string& text) {
    return spec_of({"p"}, {{"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", text}}, {})
        .uninterruptible_timeout;
  };
  EXPECT_EQ(limit("60"), std::chrono::seconds(60));
  EXPECT_EQ(limit("2.5"), std::chrono::milliseconds(2500));
  for (const char* const off : {"0", "-1", ""})
    EXPECT_EQ(limit(off), std::nullopt) << off;
  for (const char* const bad : {"1min", "nan", "inf", "1e12"})
    EXPECT_THROW(limit(bad), UsageError) << bad;
}

TEST(JobSpec, TheEndpointStandsForAddressAndPortWhenStatic) {
  const JobSpec fixed = spec_of({"--rdzv-endpoint=[::1]:29400", "p"}, {}, {});
  EXPECT_EQ(fixed.master_addr, "::1");
  EXPECT_EQ(fixed.master_port, 29400);
  EXPECT_EQ(spec_of({"--rdzv-backend=c10d", "--rdzv-endpoint=h:29400", "p"}, {}, {}).master_port,
            0);
  EXPECT_EQ(spec_of({"--standalone", "--master-port=29400", "p"}, {}, {}).master_port, 0);
}

}  // namespace
}  // namespace ddp::launcher
