#include "common/identity.h"

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

TEST(Identity, WhatTheLauncherWritesTheWorkerReads) {
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

}  // namespace
}  // namespace ddp
