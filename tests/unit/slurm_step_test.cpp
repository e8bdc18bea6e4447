#include "common/node/slurm_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace ddp {
namespace {

using ::testing::HasSubstr;

// As srun of Slurm 22.05 sets them for the second of three tasks on two nodes.
const Environment kTask{{"SLURM_JOB_ID", "7"},
                        {"SLURM_STEP_ID", "1"},
                        {"SLURM_STEP_NUM_NODES", "2"},
                        {"SLURM_STEP_NUM_TASKS", "3"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                        {"SLURM_STEP_NODELIST", "n[01-02]"},
                        {"SLURM_NODEID", "0"},
                        {"SLURM_PROCID", "1"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_JOB_NUM_NODES", "4"},
                        {"SLURM_NNODES", "2"}};

Environment with(const std::string& name, const std::string& text) {
  Environment environment = kTask;
  environment[name] = text;
  return environment;
}

TEST(SlurmStep, StepIsReadFromTheEnvironmentOfSrun) {
  const SlurmFacts facts = read_slurm(kTask);
  EXPECT_TRUE(facts.in_step);
  EXPECT_EQ(facts.problem, "");
  const SlurmStep expected{.job = 7,
                           .step = 1,
                           .nodes = 2,
                           .node = 0,
                           .tasks = 3,
                           .task = 1,
                           .tasks_here = 2,
                           .task_here = 1,
                           .first_node = "n01",
                           .gpus = 0};
  EXPECT_EQ(facts.step, expected);
  EXPECT_EQ(slurm_run_id(facts.step), "slurm-7.1");
}

TEST(SlurmStep, CountsTheTasksOfItsNode) {
  Environment environment = with("SLURM_STEP_TASKS_PER_NODE", "1(x3),4(x2),2");
  environment["SLURM_STEP_NUM_NODES"] = "6";
  environment["SLURM_STEP_NODELIST"] = "n[1-6]";
  environment["SLURM_NODEID"] = "4";
  EXPECT_EQ(read_slurm(environment).step.tasks_here, 4);
  environment["SLURM_NODEID"] = "5";
  EXPECT_EQ(read_slurm(environment).step.tasks_here, 2);
}

TEST(SlurmStep, CountsGpusWithAndWithoutTheirKind) {
  EXPECT_EQ(read_slurm(with("SLURM_GPUS_ON_NODE", "4")).step.gpus, 4);
  EXPECT_EQ(read_slurm(with("SLURM_GPUS_PER_NODE", "a100:8")).step.gpus, 8);
  EXPECT_EQ(read_slurm(with("SLURM_GPUS_PER_NODE", "a100")).step.gpus, 0);
}

TEST(SlurmStep, ABatchScriptIsNone) {
  Environment environment = kTask;
  environment.erase("SLURM_STEP_ID");
  EXPECT_FALSE(read_slurm(environment).in_step);
  EXPECT_EQ(read_slurm(environment).job_nodes, 4);
  EXPECT_FALSE(read_slurm({}).in_step);
  EXPECT_EQ(read_slurm({}).job_nodes, 0);
}

TEST(SlurmStep, AnInteractiveShellIsNone) {
  const SlurmFacts facts = read_slurm(with("SLURM_STEP_ID", "4294967290"));
  EXPECT_FALSE(facts.in_step);
  EXPECT_EQ(facts.job_nodes, 4);
}

TEST(SlurmStep, SaysWhatDoesNotFit) {
  const auto problem = [](const std::string& name, const std::string& text) {
    const SlurmFacts facts = read_slurm(with(name, text));
    EXPECT_TRUE(facts.in_step);
    return facts.problem;
  };
  EXPECT_EQ(problem("SLURM_NODEID", ""), "SLURM_NODEID is not set");
  EXPECT_EQ(problem("SLURM_PROCID", "x"), "SLURM_PROCID=x is not a number");
  EXPECT_EQ(problem("SLURM_PROCID", "-1"), "SLURM_PROCID=-1 is not a number");
  EXPECT_EQ(problem("SLURM_STEP_ID", "0.1"), "SLURM_STEP_ID=0.1 is not a number");
  EXPECT_THAT(problem("SLURM_PROCID", "3"), HasSubstr("does not fit SLURM_STEP_NUM_TASKS"));
  EXPECT_THAT(problem("SLURM_NODEID", "2"), HasSubstr("does not fit SLURM_STEP_NUM_NODES"));
  EXPECT_THAT(problem("SLURM_LOCALID", "2147483647"), HasSubstr("does not fit"));
  EXPECT_THAT(problem("SLURM_STEP_NODELIST", "n[1-"), HasSubstr("brackets do not fit"));
  EXPECT_THAT(problem("SLURM_STEP_NODELIST", "n1"), HasSubstr("has 1 names"));
}

TEST(SlurmStep, StepsOnOneNodeHavePortsOfTheirOwn) {
  std::set<int> ports;
  for (std::uint64_t job = 9990; job < 10010; ++job) {
    for (std::uint64_t step = 0; step < 5; ++step) {
      const int port = slurm_port({.job = job, .step = step, .first_node = {}});
      EXPECT_GE(port, 20000);
      EXPECT_LT(port, 30000);
      EXPECT_TRUE(ports.insert(port).second) << job << "." << step;
    }
  }
}

}  // namespace
}  // namespace ddp
