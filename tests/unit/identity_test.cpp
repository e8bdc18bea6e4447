#include "common/node/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error.h"

namespace ddp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string problem_of(const Environment& environment) {
  try {
    read_identity(environment);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Identity, TheWorkerReadsWhatTheLauncherWrites) {
  WorkerIdentity identity;
  identity.rank = 3;
  identity.world_size = 5;
  identity.local_rank = 1;
  identity.local_world_size = 2;
  identity.group_rank = 1;
  identity.group_world_size = 2;
  identity.role_rank = 3;
  identity.role_world_size = 5;
  identity.role_name = "trainer";
  identity.master_addr = "127.0.0.1";
  identity.master_port = 29500;
  identity.agent_store = true;
  identity.restart_count = 2;
  identity.max_restarts = 4;
  identity.user_run_id = "job7";
  identity.error_file = "/tmp/error.json";
  identity.run_id = "0123";
  identity.round = 2;
  identity.run_dir = "/tmp/runs/x";
  identity.progress_fd = 7;
  EXPECT_EQ(read_identity(to_environment(identity)), identity);
}

TEST(Identity, WithoutVariablesAWorkerIsAlone) {
  const WorkerIdentity identity = read_identity({});
  EXPECT_EQ(identity, WorkerIdentity());
  EXPECT_EQ(identity.world_size, 1);
}

TEST(Identity, SaysWhereItIsFrom) {
  EXPECT_EQ(describe(read_identity({})), "not distributed: one process");
  EXPECT_EQ(describe(read_identity(
                {{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}})),
            "rank 1 of 3, from RANK and WORLD_SIZE");
  WorkerIdentity task;
  task.rank = 1;
  task.world_size = 3;
  task.platform = "Slurm";
  EXPECT_EQ(describe(task), "rank 1 of 3, from Slurm");
}

TEST(Identity, EmptyMeansUnset) {
  EXPECT_EQ(read_identity({{"RANK", ""}, {"WORLD_SIZE", ""}}), WorkerIdentity());
}

TEST(Identity, HalfASetIsRefused) {
  EXPECT_THAT(problem_of({{"RANK", "0"}}), HasSubstr("WORLD_SIZE is not"));
  EXPECT_THAT(problem_of({{"WORLD_SIZE", "2"}}), HasSubstr("RANK is not"));
  EXPECT_THAT(problem_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
              HasSubstr("MASTER_ADDR and MASTER_PORT"));
}

TEST(Identity, EveryBadNumberIsNamed) {
  const Environment environment{
      {"RANK", "x"}, {"WORLD_SIZE", "-2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}};
  EXPECT_THAT(
      problem_of(environment),
      AllOf(HasSubstr("RANK=x"), HasSubstr("WORLD_SIZE=-2"), HasSubstr("MASTER_PORT=70000")));
}

TEST(Identity, ARankOutsideItsWorldIsRefused) {
  const Environment environment{
      {"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
  EXPECT_THAT(problem_of(environment), HasSubstr("RANK=2 does not fit WORLD_SIZE=2"));
}

const Environment kSlurm{{"SLURM_JOB_ID", "7"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_STEP_NUM_TASKS", "3"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                         {"SLURM_STEP_NODELIST", "n[1-2]"},
                         {"SLURM_NODEID", "0"},
                         {"SLURM_PROCID", "1"},
                         {"SLURM_LOCALID", "1"}};
const Environment kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "3"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                           {"MASTER_ADDR", "n1"},
                           {"MASTER_PORT", "7"}};

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, text] : more)
    environment[name] = text;
  return environment;
}

TEST(Identity, ATaskOfSlurmIsARank) {
  const WorkerIdentity identity = read_identity(kSlurm);
  WorkerIdentity expected;
  expected.rank = expected.role_rank = 1;
  expected.world_size = expected.role_world_size = 3;
  expected.local_rank = 1;
  expected.local_world_size = 2;
  expected.group_world_size = 2;
  expected.master_addr = "n1";
  expected.master_port = 20007;
  expected.user_run_id = "slurm-7.0";
  expected.platform = "Slurm";
  EXPECT_EQ(identity, expected);
  const WorkerIdentity moved = read_identity(with(kSlurm, {{"MASTER_PORT", "7"}}));
  EXPECT_EQ(moved.master_addr, "n1");
  EXPECT_EQ(moved.master_port, 7);
}

TEST(Identity, ALauncherComesBeforeSlurm) {
  const WorkerIdentity identity = read_identity(with(
      kSlurm, {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}));
  EXPECT_EQ(identity.world_size, 2);
  EXPECT_EQ(identity.local_rank, 0);
  EXPECT_EQ(identity.platform, "");
}

TEST(Identity, OneTaskAndABatchScriptAreAlone) {
  Environment batch = kSlurm;
  batch.erase("SLURM_STEP_ID");
  EXPECT_EQ(read_identity(batch), WorkerIdentity());
  const WorkerIdentity one = read_identity(with(kSlurm,
                                                {{"SLURM_STEP_NUM_NODES", "1"},
                                                 {"SLURM_STEP_NUM_TASKS", "1"},
                                                 {"SLURM_STEP_NODELIST", "n1"},
                                                 {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                                 {"SLURM_PROCID", "0"},
                                                 {"SLURM_LOCALID", "0"}}));
  EXPECT_EQ(one, WorkerIdentity());
}

TEST(Identity, AProcessOfMpirunIsARank) {
  const WorkerIdentity identity = read_identity(with(kSlurm, kOpenMpi));
  EXPECT_EQ(identity.rank, 1);
  EXPECT_EQ(identity.local_rank, 0);
  EXPECT_EQ(identity.platform, "Open MPI");
  Environment mpich{{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}};
  mpich = with(mpich, {{"MPI_LOCALNRANKS", "2"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "7"}});
  EXPECT_EQ(read_identity(mpich).rank, 2);
  EXPECT_EQ(read_identity(mpich).local_world_size, 2);
  EXPECT_EQ(read_identity(mpich).platform, "PMI");
  // srun --mpi=pmi2 sets PMI's variables too, and Slurm's say more.
  EXPECT_EQ(read_identity(with(kSlurm, {{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}})).platform, "Slurm");
}

TEST(Identity, HalfAPlatformIsRefused) {
  EXPECT_THAT(problem_of({{"OMPI_COMM_WORLD_RANK", "0"}}),
              HasSubstr("Open MPI: OMPI_COMM_WORLD_SIZE is not set"));
  EXPECT_THAT(problem_of({{"PMI_SIZE", "2"}}), HasSubstr("PMI: PMI_RANK is not set"));
  EXPECT_THAT(problem_of(with(kSlurm, {{"SLURM_PROCID", ""}})),
              HasSubstr("Slurm: SLURM_PROCID is not set"));
  EXPECT_THAT(problem_of(with(kOpenMpi, {{"MASTER_ADDR", ""}})),
              HasSubstr("MASTER_ADDR and MASTER_PORT are not both set"));
}

}  // namespace
}  // namespace ddp
