// `ddp-launch doctor` on one node and on several, with networks that let only some of them through.
#include <gmock/gmock.h>

#include <csignal>

#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Doctor : public ProcessTest {};

TEST_F(Doctor, OneNodeTellsAboutItself) {
  auto doctor = launch({"doctor"});
  const int code = doctor->wait();
  EXPECT_TRUE(code == 0 || code == 1) << code << doctor->err();  // as this machine is
  EXPECT_THAT(doctor->out(), AllOf(HasSubstr("node  host"), HasSubstr("problem")));
  EXPECT_THAT(doctor->out(), Not(HasSubstr("round trip")));
}

TEST_F(Doctor, AProblemIsNamedAndIsTheExitCode) {
  auto doctor =
      start({{"/bin/sh", "-c", std::string("ulimit -n 512; exec ") + DDP_LAUNCH + " doctor"}});
  EXPECT_EQ(doctor->wait(), 1) << doctor->err();
  EXPECT_THAT(doctor->out(), HasSubstr("): at most 512 open files. Raise the hard limit"));
}

TEST_F(Doctor, ItsFlagsAndAProgramFollowIt) {
  auto wrong = launch({"doctor", "--nonsense"});
  EXPECT_EQ(wrong->wait(), 2);
  auto missing = launch({"doctor", "--nproc-per-node=1", "no-such-program"});
  EXPECT_EQ(missing->wait(), 127) << missing->err();
  auto there = launch({"doctor", "--nproc-per-node=1", DDP_FAKE_WORKER, "exit", "5"});
  EXPECT_LT(there->wait(), 2) << there->err();
}

class DoctorOnNodes : public ClusterTest {
 protected:
  std::unique_ptr<Running> look(int node, const std::vector<std::string>& flags = {}) {
    Command command{.arguments = cluster().enter(node)};
    for (const std::string& word : {std::string(DDP_LAUNCH),
                                    std::string("doctor"),
                                    std::string("--nnodes"),
                                    std::to_string(cluster().size()),
                                    std::string("--node-rank"),
                                    std::to_string(node),
                                    std::string("--master-addr"),
                                    Cluster::address(0)})
      command.arguments.push_back(word);
    command.arguments.insert(command.arguments.end(), flags.begin(), flags.end());
    return start(std::move(command));
  }
  Agents look_everywhere() {
    Agents doctors;
    for (int node = 0; node < cluster().size(); ++node)
      doctors.push_back(look(node));
    return doctors;
  }
};

TEST_F(DoctorOnNodes, AllOfThemShowTheSameTable) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  Agents doctors = look_everywhere();
  for (const auto& doctor : doctors)
    EXPECT_EQ(doctor->wait(), 0) << doctor->out() << doctor->err();
  const std::string& table = doctors[0]->out();
  EXPECT_EQ(doctors[1]->out(), table);
  EXPECT_EQ(doctors[2]->out(), table);
  for (int node = 0; node < 3; ++node) {
    EXPECT_THAT(table, HasSubstr(Cluster::host(node)));
    EXPECT_THAT(table, HasSubstr(Cluster::address(node)));
  }
  EXPECT_EQ(count(table, "2 of 2"), 3U) << table;
  // A loaded machine gets notes about slow links below.
  EXPECT_EQ(count(table.substr(0, table.find("\nround trip: ")), "iB/s"), 3U) << table;
  EXPECT_THAT(table, HasSubstr("no problem found"));
}

TEST_F(DoctorOnNodes, APairThatIsCutOffIsNamedOnEveryNode) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  cluster().drop(1, 2);  // node 0 hears both
  Agents doctors = look_everywhere();
  for (const auto& doctor : doctors) {
    EXPECT_EQ(doctor->wait(60s), 1) << doctor->out() << doctor->err();
    EXPECT_THAT(doctor->out(),
                AllOf(HasSubstr("problem: node 1 (node1) cannot reach node 2 (node2) at 10.77.0.3 "
                                "port "),
                      HasSubstr("no answer within 5 s. Gloo and NCCL")));
    EXPECT_THAT(doctor->out(), Not(HasSubstr("node 0 (node0) cannot")));
  }
}

TEST_F(DoctorOnNodes, ANodeThatDoesNotComeIsNamed) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  auto first = look(0, {"--join-timeout", "3s"});
  auto second = look(2);
  EXPECT_EQ(first->wait(60s), 1) << first->out() << first->err();
  EXPECT_EQ(second->wait(), 1) << second->out() << second->err();
  EXPECT_THAT(second->out(),
              AllOf(HasSubstr("problem: node 1 did not come"), HasSubstr("1 problem\n")));
  EXPECT_EQ(second->out(), first->out());
}

TEST_F(DoctorOnNodes, OneThatWasKilledMayComeAgain) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  auto first = look(0);
  auto killed = look(1);
  ASSERT_TRUE(first->sees("node 1 (node1) has come")) << first->err();
  killed->signal(SIGKILL);
  ASSERT_TRUE(first->sees("a node has left: node1, ")) << first->err();
  auto again = look(1);
  auto third = look(2);
  for (Running* const doctor : {first.get(), again.get(), third.get()})
    EXPECT_EQ(doctor->wait(), 0) << doctor->out() << doctor->err();
}

TEST_F(DoctorOnNodes, AssistantsEndWithNode0) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  auto first = look(0, {"--nnodes=3"});  // it waits for one more
  auto second = look(1, {"--nnodes=3"});
  ASSERT_TRUE(first->sees("node 1 (node1) has come")) << first->err();
  first->signal(SIGKILL);
  EXPECT_EQ(second->wait(10s), 202) << second->err();
  EXPECT_THAT(second->err(), HasSubstr("node 0's doctor at 10.77.0.1 is gone"));
}

TEST_F(DoctorOnNodes, AJobAndADoctorAreNotMixedUp) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  auto doctor = look(0);
  // It waits for node 0 until that listens.
  auto job = launch_on(1, "exit 0");
  EXPECT_EQ(job->wait(), 203) << job->err();
  EXPECT_THAT(job->err(),
              HasSubstr("node 0 (node0) runs ddp-launch doctor, node 1 (node1) starts a job. Start "
                        "doctor on all nodes, then the job."));
  auto other = look(1);
  EXPECT_EQ(doctor->wait(), 0) << doctor->err();
  EXPECT_EQ(other->wait(), 0) << other->err();

  auto first = launch_on(0, "exit 0");
  auto late = look(1);
  EXPECT_EQ(late->wait(), 203) << late->err();
  EXPECT_THAT(late->err(), HasSubstr("This is ddp-launch doctor: start it on all nodes, before"));
  auto second = launch_on(1, "exit 0");
  EXPECT_EQ(first->wait(), 0) << first->err();  // unharmed
  EXPECT_EQ(second->wait(), 0) << second->err();
}

}  // namespace
}  // namespace ddp::test
