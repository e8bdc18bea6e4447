// What the agent and the template of Python ranks say to each other, and when ranks can be copies.
#include "launcher/plan/start/template_messages.h"

#include <gmock/gmock.h>

#include <csignal>

#include "common/error.h"
#include "common/job/resolve_job.h"
#include "launcher/plan/command_line/options.h"
#include "launcher/plan/start/worker_environment.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;
using Words = std::vector<std::string>;

JobSpec make(const Words& words, const Environment& environment = {}) {
  const Options options = parse_options(words, environment);
  return make_job_spec(
      options, resolve_job(nullptr, layer_overrides(options)), {4, 0}, environment);
}

std::string problems_of(const Words& words) {
  try {
    (void)make(words);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

Environment environment_of(const JobSpec& spec, int rank, int round) {
  Placement placement;
  placement.rank = placement.local_rank = placement.role_rank = rank;
  placement.world_size = placement.local_world_size = placement.role_world_size = spec.nproc;
  RoundFacts facts;
  facts.round = round;
  facts.master_addr = "127.0.0.1";
  facts.master_port = 29500 + round;
  facts.run_dir = "/runs/run";
  facts.columns = 100;
  facts.rows = 40;
  const std::string error_file = "/tmp/error" + std::to_string(rank);
  return worker_environment(spec, added_environment(spec, placement, facts, error_file, 7 + rank));
}

TEST(Preload, ModulesComeFromFlagVariableAndKey) {
  EXPECT_THAT(make({"t.py"}).preload, IsEmpty());
  EXPECT_THAT(make({"--preload", "torch,torch.nn", "t.py"}).preload,
              ElementsAre("torch", "torch.nn"));
  EXPECT_THAT(make({"--preload=auto", "t.py"}).preload, ElementsAre("auto"));
  EXPECT_THAT(make({"t.py"}, {{"DDP_PRELOAD", "numpy"}}).preload, ElementsAre("numpy"));
  EXPECT_THAT(problems_of({"--preload", "a-b", "t.py"}),
              HasSubstr("--preload: a-b: not the name of a module"));
  EXPECT_THAT(problems_of({"--preload", "a..b", "t.py"}), HasSubstr("a..b: not the name"));
  EXPECT_THAT(problems_of({"--preload", "auto,numpy", "t.py"}), HasSubstr("auto stands alone"));
}

TEST(Preload, RanksAndRoundsDifferInWhatTheTemplateLacksAlone) {
  const JobSpec spec = make({"--nproc-per-node=2", "t.py"});
  for (const TemplateUse use : {TemplateUse::job, TemplateUse::warm}) {
    const auto base_of = [&](int rank, int round) {
      return template_environment(environment_of(spec, rank, round), use);
    };
    const Environment base = base_of(0, 0);
    EXPECT_FALSE(base.contains("RANK"));
    EXPECT_TRUE(base.contains("OMP_NUM_THREADS"));
    EXPECT_EQ(base.contains("DDP_AGENT_ID"), use == TemplateUse::job);
    EXPECT_EQ(find_other_variable(base, base_of(1, 0)), std::nullopt);
    EXPECT_EQ(find_other_variable(base, base_of(1, 3)), std::nullopt);
  }
}

TEST(Preload, AVariableThatAnImportMayHaveReadMustBeTheSame) {
  const Environment base{{"OMP_NUM_THREADS", "1"}};
  EXPECT_THAT(find_other_variable(base, {{"OMP_NUM_THREADS", "2"}}),
              Optional(HasSubstr("OMP_NUM_THREADS")));
  EXPECT_THAT(find_other_variable(base, {}), Optional(HasSubstr("OMP_NUM_THREADS")));
  EXPECT_THAT(find_other_variable(base, {{"OMP_NUM_THREADS", "1"}, {"PYTHONHASHSEED", "1"}}),
              Optional(HasSubstr("PYTHONHASHSEED")));
  const JobSpec spec = make({"--nproc-per-node=2", "--virtual-local-rank", "t.py"},
                            {{"CUDA_VISIBLE_DEVICES", "3,5"}});
  const auto base_of = [&](int rank) {
    return template_environment(environment_of(spec, rank, 0), TemplateUse::warm);
  };
  EXPECT_THAT(find_other_variable(base_of(0), base_of(1)),
              Optional(HasSubstr("CUDA_VISIBLE_DEVICES")));
}

TEST(Preload, VisibleGpusDoNotDivideTemplatesOfDdpWorker) {
  const JobSpec spec = make({"--nproc-per-node", "2", "--virtual-local-rank", "t.py"});
  const auto base_of = [&](int rank) {
    Environment environment = environment_of(spec, rank, 0);
    environment["CUDA_VISIBLE_DEVICES"] = std::to_string(rank);
    return template_environment(environment, TemplateUse::worker);
  };
  EXPECT_EQ(find_other_variable(base_of(0), base_of(1)), std::nullopt);
}

TEST(Preload, OnlyPythonCanBeCopied) {
  EXPECT_THAT(find_preload_obstacle(make({"./t.sh"})),
              Optional(HasSubstr("./t.sh is not a Python script")));
  EXPECT_TRUE(find_preload_obstacle(make({"--no-python", "t.py"})));
  EXPECT_EQ(find_preload_obstacle(make({"-m", "t"})), std::nullopt);
  JobSpec bound = make({"t.py"});
  bound.cpu_sets = {{0, 1}};
  EXPECT_THAT(find_preload_obstacle(bound), Optional(HasSubstr("OMP_NUM_THREADS")));
  bound.environment["OMP_NUM_THREADS"] = "1";
  EXPECT_EQ(find_preload_obstacle(bound), std::nullopt);
}

TEST(Preload, RanksOfDdpWorkerAreCopiedWhereItPays) {
  const auto is_warm = [](Words words,
                          const std::string& wanted = "auto",
                          const std::string& program = "ddp-worker") {
    words.insert(words.end(), {program, "job.yaml", "data.batch=8", "launch.warm_start=" + wanted});
    const JobSpec spec = make(words);
    EXPECT_FALSE(spec.warm_start && find_preload_obstacle(spec));
    return spec.warm_start;
  };
  EXPECT_TRUE(is_warm({"--nproc-per-node", "2"}));
  EXPECT_FALSE(is_warm({"--nproc-per-node", "1"}));
  EXPECT_TRUE(is_warm({"--max-restarts", "1"}));
  EXPECT_TRUE(is_warm({}, "true"));
  EXPECT_FALSE(is_warm({"--nproc-per-node", "2"}, "false"));
  EXPECT_FALSE(is_warm({"--nproc-per-node", "2"}, "auto", "./my_worker"));
  EXPECT_FALSE(make({"--nproc-per-node", "2", "t.py"}).warm_start);
}

TEST(Preload, AScriptThatReadsTheRankIsToBeRunByEachRank) {
  EXPECT_EQ(find_rank_variable("#!/bin/sh\nexport D=$LOCAL_RANK; exec python3 \"$@\"\n"), "RANK");
  EXPECT_EQ(find_rank_variable("#!/bin/sh\nexec python3 \"$@\"\n"), std::nullopt);
  EXPECT_EQ(find_rank_variable("\177ELF RANK"), std::nullopt);
}

TEST(Preload, RequestsAreWordsWithNullBytesBetween) {
  const Environment rank{{"RANK", "0"}, {"X", "y=z"}};
  EXPECT_EQ(import_request({"a", "b"}, rank, {{"X", "y=z"}}),
            "\0\0"
            "0\0\0a\0b\0\0RANK\0\0X=y=z"s);
  EXPECT_EQ(import_request({"a"}, {}, {}, {"/p", "/p.1", 60s, "key"}),
            "/p\0/p.1\0"
            "60\0key\0a\0\0"s);
  EXPECT_EQ(job_request("key", "id", {"python3", "-u", "t.py"}), "key\0id\0python3\0-u\0t.py"s);
  CopyPlan plan;
  plan.parent = 5;
  plan.descriptors = "pc";
  plan.page_fd = 9;
  plan.cpus = {1, 3};
  plan.arguments = {"python3", "", "t.py"};
  plan.environment = {{"RANK", "0"}};
  EXPECT_EQ(copy_request(plan),
            "5\0pc\0"
            "9\0-1\0"
            "1,3\0"
            "3\0python3\0\0t.py\0RANK=0"s);
}

TEST(Preload, AnswersAreRead) {
  using Kind = TemplateMessage::Kind;
  EXPECT_EQ(read_template_message("ready ").kind, Kind::ready);
  EXPECT_EQ(read_template_message("ready 17").text, "17");
  EXPECT_EQ(read_template_message("stale t.py has changed").text, "t.py has changed");
  EXPECT_EQ(read_template_message("importing torch").text, "torch");
  EXPECT_EQ(read_template_message("unfit module a left x open").text, "module a left x open");
  EXPECT_EQ(read_template_message("what else").kind, Kind::unfit);
  EXPECT_EQ(read_copy_answer("17 1").pid, 17);
  EXPECT_TRUE(read_copy_answer("17 1").is_in_cgroup);
  EXPECT_FALSE(read_copy_answer("17 0").is_in_cgroup);
  for (const char* const wrong : {"", "0 0", "-1 0", "1 1", "17", "OSError: no"}) {
    EXPECT_EQ(read_copy_answer(wrong).pid, 0) << wrong;
    EXPECT_FALSE(read_copy_answer(wrong).problem.empty()) << wrong;
  }
}

TEST(Preload, JobsShareAWarmTemplateByWhatItsImportsCouldSee) {
  const auto key = [](const Words& arguments, const Words& modules, const Environment& base) {
    return warm_key(arguments, modules, base, "state");
  };
  const std::string one = key({"python3", "-u", "t.py", "--lr", "1"}, {"a"}, {{"X", "1"}});
  EXPECT_EQ(one, key({"python3", "-u", "t.py"}, {"a"}, {{"X", "1"}}));
  EXPECT_NE(one, key({"python3", "-u", "u.py"}, {"a"}, {{"X", "1"}}));
  EXPECT_NE(one, key({"python3", "-u", "t.py"}, {"a", "b"}, {{"X", "1"}}));
  EXPECT_NE(one, key({"python3", "-u", "t.py"}, {"a"}, {{"X", "2"}}));
  EXPECT_NE(key({"python3", "-u", "-m", "m"}, {}, {}), key({"python3", "-u", "-m", "n"}, {}, {}));
  EXPECT_NE(one, warm_key({"python3", "-u", "t.py"}, {"a"}, {{"X", "1"}}, "other"));
  EXPECT_NE(key({"python3", "-u", "t.py"}, {}, {{"A", "1\nB=2"}}),
            key({"python3", "-u", "t.py"}, {}, {{"A", "1"}, {"B", "2"}}));
}

TEST(Preload, TheReasonWhyAWarmTemplateDoesNotFitIsNamed) {
  const auto key = [](const Words& arguments, const Words& modules, const Environment& base) {
    return warm_key(arguments, modules, base, "Umask: 2\nworking directory: /a\n");
  };
  const Words arguments{"python3", "-u", "t.py"};
  const Environment base{{"A", "1"}, {"B", "two\nlines: 3"}};
  const std::string ours = key(arguments, {"torch"}, base);
  const auto why = [&](const std::string& theirs) { return find_other_part(theirs, ours); };
  EXPECT_THAT(why(key({"/other/python3", "-u", "t.py"}, {"torch"}, base)),
              Optional("it is of the interpreter /other/python3"s));
  EXPECT_THAT(why(key(arguments, {"torch", "numpy"}, base)),
              Optional("it was made with --preload torch, numpy"s));
  EXPECT_THAT(why(key(arguments, {"torch"}, {{"A", "2"}, {"C", ""}})),
              Optional("other variables: A, B, C"s));
  EXPECT_THAT(why(key(arguments, {"torch"}, {{"D", ""}, {"E", ""}, {"F", ""}, {"G", ""}})),
              Optional("other variables: A, B, D, E and 2 more"s));
  EXPECT_THAT(why(warm_key(arguments, {"torch"}, base, "Umask: 7\nworking directory: /a\n")),
              Optional("differs: Umask"s));
  const std::string elsewhere = "Umask: 2\nworking directory: /b\n";
  EXPECT_EQ(why(warm_key(arguments, {"torch"}, base, elsewhere)), std::nullopt)
      << "another project's t.py";
  const Words absolute{"python3", "-u", "/a/t.py"};
  EXPECT_THAT(find_other_part(warm_key(absolute, {"torch"}, base, elsewhere),
                              key(absolute, {"torch"}, base)),
              Optional("differs: working directory"s));
  EXPECT_EQ(why(key({"python3", "-u", "other.py"}, {"torch"}, base)), std::nullopt);
  for (const char* const odd : {"", "1.0\n5", "1.0\n3:a", "1.0\n99:ab", "\n1:a"})
    EXPECT_EQ(why(odd), std::nullopt) << odd;
}

TEST(Preload, EndsOfCopiesAreRead) {
  EXPECT_EQ(read_exit("runs "), std::nullopt);
  EXPECT_EQ(read_exit("ended 1 3"), (ExitStatus{3, 0, false}));
  EXPECT_EQ(read_exit("ended 2 9"), (ExitStatus{0, SIGKILL, false}));
  EXPECT_EQ(read_exit("ended 3 11"), (ExitStatus{0, SIGSEGV, true}));
}

TEST(Preload, AWarmTemplateDescribesItself) {
  const auto found = read_warm_template("17\n1700000000\n540\n2\n/usr/bin/python3\ntorch\nt.py");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pid, 17);
  EXPECT_EQ(found->idle_left, 540);
  EXPECT_EQ(found->script, "t.py");
  EXPECT_FALSE(read_warm_template("unfit x"));
  EXPECT_FALSE(read_warm_template("1\n\n\n\n\n\n"));
}

TEST(Preload, ATemplateStaysTenMinutesButNotInABatchJob) {
  EXPECT_EQ(make({"t.py"}).preload_idle, 10min);
  EXPECT_EQ(make({"t.py"}, {{"SLURM_JOB_ID", "7"}}).preload_idle, 0s);
  EXPECT_EQ(make({"--preload-idle=90s", "t.py"}, {{"SLURM_JOB_ID", "7"}}).preload_idle, 90s);
  EXPECT_EQ(make({"t.py"}, {{"DDP_PRELOAD_IDLE", "0s"}}).preload_idle, 0s);
}

}  // namespace
}  // namespace ddp::launcher
