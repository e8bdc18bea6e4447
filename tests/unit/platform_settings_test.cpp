#include "launcher/plan/start/platform_settings.h"
#include "common/job/job_keys.h"
#include "common/job/job_text.h"
#include "common/job/resolve_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "launcher/plan/command_line/options.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using Words = std::vector<std::string>;

const Environment kSlurm{{"SLURM_JOB_ID", "7"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                         {"SLURM_STEP_NODELIST", "n[1-2]"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_PROCID", "1"},
                         {"SLURM_LOCALID", "0"}};
const Environment kOpenMpi{{"OMPI_COMM_WORLD_SIZE", "3"},
                           {"OMPI_COMM_WORLD_RANK", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};

struct Job {
  JobValues job;
  std::vector<std::string> notes;

  std::string text(const std::string& name) const {
    for (const JobKey& key : job_keys()) {
      if (key.path == "launch." + name) return to_text(key, job.setting(key.path).value);
    }
    return "no such key";
  }
  std::string origin(const std::string& name) const { return job.setting("launch." + name).origin; }
};

Job detect_for(Words words, Environment environment) {
  words.emplace_back("p");
  JobValues job = resolve_job(nullptr, layer_overrides(parse_options(words, environment)));
  const PlatformSettings detected = read_platform_settings(environment, job);
  apply(detected, job);
  return {job, detected.notes};
}

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, text] : more)
    environment[name] = text;
  return environment;
}

TEST(PlatformSettings, TakesAllFromSlurm) {
  const Job job = detect_for({}, kSlurm);
  EXPECT_EQ(job.job.text("launch.nnodes"), "2");
  EXPECT_EQ(job.text("node_rank"), "1");
  EXPECT_EQ(job.job.maybe_text("launch.master_addr"), "n1");
  EXPECT_EQ(job.text("master_port"), "20007");
  EXPECT_EQ(job.job.text("launch.rdzv_id"), "slurm-7.0");
  EXPECT_EQ(job.origin("nnodes"), "SLURM_STEP_NUM_NODES");
  EXPECT_EQ(job.origin("node_rank"), "SLURM_NODEID");
  EXPECT_EQ(job.origin("nproc_per_node"), "default");
  EXPECT_THAT(job.notes,
              ElementsAre("from Slurm: node 1 of 2, master n1:20007, run id slurm-7.0; "
                          "--no-auto-env turns this off"));
}

TEST(PlatformSettings, AGpuOfSlurmIsAWorker) {
  const Environment gpus = with(kSlurm, {{"SLURM_GPUS_ON_NODE", "4"}});
  EXPECT_EQ(detect_for({}, gpus).text("nproc_per_node"), "4");
  EXPECT_THAT(detect_for({}, gpus).notes, ElementsAre(HasSubstr("4 workers, one per GPU")));
  EXPECT_EQ(detect_for({"--nproc-per-node=2"}, gpus).text("nproc_per_node"), "2");
  const Environment one_node = with(gpus,
                                    {{"SLURM_STEP_NUM_NODES", "1"},
                                     {"SLURM_STEP_NUM_TASKS", "1"},
                                     {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                     {"SLURM_STEP_NODELIST", "n1"},
                                     {"SLURM_NODEID", "0"},
                                     {"SLURM_PROCID", "0"}});
  EXPECT_EQ(detect_for({}, one_node).text("nproc_per_node"), "4");
  EXPECT_EQ(detect_for({}, one_node).origin("rdzv_id"), "default");
}

TEST(PlatformSettings, TheUserComesFirst) {
  const Job job = detect_for({"--master-addr=far", "--master-port=7", "--rdzv-id=mine"},
                             with(kSlurm, {{"PET_NODE_RANK", "0"}, {"PET_NNODES", "1:2"}}));
  EXPECT_EQ(job.origin("nnodes"), "PET_NNODES");
  EXPECT_EQ(job.origin("node_rank"), "PET_NODE_RANK");
  EXPECT_EQ(job.origin("master_addr"), "--master-addr");
  EXPECT_EQ(job.origin("rdzv_id"), "--rdzv-id");
  EXPECT_THAT(job.notes, IsEmpty());
}

TEST(PlatformSettings, AnEndpointIsAnAddress) {
  const Job job = detect_for({"--rdzv-backend=c10d", "--rdzv-endpoint=far:7"}, kSlurm);
  EXPECT_EQ(job.origin("master_addr"), "default");
  EXPECT_EQ(job.origin("master_port"), "default");
  EXPECT_EQ(job.text("node_rank"), "1");
}

TEST(PlatformSettings, AnotherNumberOfNodesTurnsItOff) {
  const Job job = detect_for({"--nnodes=1"}, kSlurm);
  EXPECT_EQ(job.origin("node_rank"), "default");
  EXPECT_EQ(job.origin("master_addr"), "default");
  EXPECT_THAT(job.notes,
              ElementsAre("Slurm says 2 nodes, --nnodes says 1: nothing is taken from "
                          "Slurm."));
}

TEST(PlatformSettings, CanBeTurnedOff) {
  for (const char* const flag : {"--no-auto-env", "--standalone"}) {
    const Job job = detect_for({flag}, kSlurm);
    EXPECT_EQ(job.origin("nnodes"), "default") << flag;
    EXPECT_THAT(job.notes, IsEmpty()) << flag;
  }
  EXPECT_EQ(detect_for({"--no-auto-env"}, {}).text("auto_env"), "false");
}

TEST(PlatformSettings, OneOfSeveralTasksOfANodeIsNoAgent) {
  Environment side_by_side = with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "8"}});
  side_by_side["SLURM_STEP_TASKS_PER_NODE"] = "4(x2)";
  EXPECT_THAT([&] { (void)detect_for({}, side_by_side); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("Slurm started 4 processes on this node"),
                                              HasSubstr("srun --ntasks-per-node=1"))));
  EXPECT_THAT(detect_for({"--nnodes=1"}, side_by_side).notes, IsEmpty());
}

TEST(PlatformSettings, ABatchScriptWithoutSrunGetsAHint) {
  const Environment batch{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}};
  EXPECT_EQ(detect_for({}, batch).origin("nnodes"), "default");
  EXPECT_THAT(detect_for({}, batch).notes, ElementsAre(HasSubstr("not started by srun")));
  EXPECT_THAT(detect_for({"--nnodes=1"}, batch).notes, IsEmpty());
}

TEST(PlatformSettings, HalfASetIsNotTaken) {
  const Job job = detect_for({}, with(kSlurm, {{"SLURM_NODEID", ""}}));
  EXPECT_EQ(job.origin("nnodes"), "default");
  EXPECT_THAT(job.notes, ElementsAre(HasSubstr("SLURM_NODEID is not set, so nothing is taken")));
}

TEST(PlatformSettings, APodOfAnIndexedJobHasItsRank) {
  const Environment pod{{"JOB_COMPLETION_INDEX", "1"}, {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
  const Job job = detect_for({"--nnodes=4", "--master-addr=job-0.job"}, pod);
  EXPECT_EQ(job.text("node_rank"), "1");
  EXPECT_EQ(job.origin("node_rank"), "JOB_COMPLETION_INDEX");
  EXPECT_THAT(job.notes, ElementsAre("from Kubernetes: node 1 of 4; --no-auto-env turns this off"));
  EXPECT_THAT(detect_for({"--nnodes=4"}, pod).notes.front(), HasSubstr("Give --master-addr"));
  EXPECT_THAT(detect_for({}, pod).notes, ElementsAre(HasSubstr("--nnodes is missing")));
  EXPECT_THAT(detect_for({"--nnodes=1"}, pod).notes, IsEmpty());
  EXPECT_THAT(detect_for({"--nnodes=1:1"}, pod).notes, IsEmpty());
  EXPECT_THAT(detect_for({"--nnodes=4"}, {{"JOB_COMPLETION_INDEX", "4"}}).notes,
              ElementsAre(HasSubstr("is not a rank of 4 nodes")));
}

// Kubeflow's operator sets all of these in every pod, the ones that the user left out to "".
TEST(PlatformSettings, KubeflowSetsTorchrunsVariables) {
  const Job job = detect_for({},
                             {{"PET_NNODES", "2"},
                              {"PET_NODE_RANK", "1"},
                              {"PET_MASTER_ADDR", "job-node-0-0.job"},
                              {"PET_MASTER_PORT", "29400"},
                              {"PET_NPROC_PER_NODE", ""},
                              {"PET_STANDALONE", ""},
                              {"PET_RDZV_ID", ""},
                              {"PET_RDZV_BACKEND", ""},
                              {"PET_RDZV_ENDPOINT", ""},
                              {"PET_RDZV_CONF", ""},
                              {"PET_MAX_RESTARTS", ""},
                              {"JOB_COMPLETION_INDEX", "1"}});
  EXPECT_EQ(job.job.text("launch.nnodes"), "2");
  EXPECT_EQ(job.text("node_rank"), "1");
  EXPECT_EQ(job.job.maybe_text("launch.master_addr"), "job-node-0-0.job");
  EXPECT_EQ(job.text("master_port"), "29400");
  EXPECT_THAT(job.notes, IsEmpty());
  const Job elastic = detect_for({},
                                 {{"PET_NNODES", "1:2"},
                                  {"PET_RDZV_ENDPOINT", "job-worker-0:23456"},
                                  {"PET_RDZV_BACKEND", "c10d"},
                                  {"PET_NODE_RANK", ""}});
  EXPECT_EQ(elastic.job.text("launch.nnodes"), "1:2");
  EXPECT_EQ(elastic.job.maybe_text("launch.rdzv_endpoint"), "job-worker-0:23456");
  EXPECT_EQ(elastic.origin("node_rank"), "default");
}

TEST(PlatformSettings, MpirunGivesRanksAndNoAddress) {
  const Job job = detect_for({"--master-addr=n1"}, kOpenMpi);
  EXPECT_EQ(job.job.text("launch.nnodes"), "3");
  EXPECT_EQ(job.text("node_rank"), "2");
  EXPECT_THAT(job.notes, ElementsAre(HasSubstr("from Open MPI: node 2 of 3")));
  EXPECT_THAT(detect_for({}, kOpenMpi).notes.front(),
              HasSubstr("Open MPI does not tell where node 0 is"));
  const Environment several = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_THAT([&] { (void)detect_for({}, several); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("--map-by ppr:1:node"),
                                              HasSubstr("or --nnodes 1 for a job of its own"))));
  EXPECT_THAT(detect_for({"--nnodes=2"}, several).notes,
              ElementsAre(HasSubstr("--map-by ppr:1:node")));
  EXPECT_THAT(detect_for({"--nnodes=1"}, several).notes, IsEmpty());
  const Environment half = with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", ""}});
  EXPECT_THAT(detect_for({}, half).notes, ElementsAre(HasSubstr("do not fit each other")));
  const Environment mpich{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "1"}};
  EXPECT_EQ(detect_for({"--master-addr=n1"}, mpich).text("node_rank"), "1");
}

// mpirun starts one process of its own per node by srun; those variables are not the program's.
TEST(PlatformSettings, MpirunIsNearerThanSlurm) {
  const Job job = detect_for({"--master-addr=n1"}, with(kSlurm, kOpenMpi));
  EXPECT_EQ(job.job.text("launch.nnodes"), "3");
}

}  // namespace
}  // namespace ddp::launcher
