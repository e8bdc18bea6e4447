#include "launcher/plan/doctor/diagnosis.h"

#include <gmock/gmock.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

NodeHealth healthy(int node_rank, const std::string& host) {
  NodeHealth node;
  node.node_rank = node_rank;
  node.host = host;
  node.version = "0.5.0";
  node.kernel = "6.1.0";
  node.machine = "x86_64";
  node.cpus = 16;
  node.memory_bytes = std::int64_t{125} << 30;
  node.shared_bytes = std::int64_t{62} << 30;
  node.open_files = 1024;
  node.most_open_files = 524288;
  node.gpus = {"NVIDIA H200", "NVIDIA H200"};
  node.driver = "580.1";
  node.interfaces = {"eth0 10.0.0." + std::to_string(node_rank + 1)};
  node.address = "10.0.0." + std::to_string(node_rank + 1);
  node.port = 40000 + node_rank;
  return node;
}

NodeChecks looks(int node_rank, const std::vector<PeerCheck>& peers) {
  return {node_rank, peers};
}

PeerCheck reached(int node_rank) {
  PeerCheck peer;
  peer.node_rank = node_rank;
  peer.round_trip = 100us;
  peer.bytes_per_second = 1.2e9;
  return peer;
}

Diagnosis alone(const NodeHealth& node) {
  return diagnose(1, std::vector{node}, {});
}

TEST(Doctor, AHealthyNodeHasNoProblem) {
  const Diagnosis diagnosis = alone(healthy(0, "a"));
  EXPECT_EQ(diagnosis.problems, 0);
  EXPECT_EQ(diagnosis.text,
            "node  host  ddp-launch  kernel  machine  CPUs  memory     /dev/shm  open files      "
            "processes  locked    GPUs           driver\n"
            "0     a     0.5.0       6.1.0   x86_64   16    125.0 GiB  62.0 GiB  1024 of 524288  "
            "no limit   no limit  2 NVIDIA H200  580.1\n"
            "\n"
            "no problem found\n");
}

TEST(Doctor, ALimitThatIsTooLowIsNamedWithWhatToDo) {
  NodeHealth node = healthy(0, "a");
  node.most_open_files = 512;
  node.processes = 100;
  node.shared_bytes = 64 << 20;
  node.driver = "";
  node.locked_bytes = 8 << 20;
  const Diagnosis diagnosis = alone(node);
  EXPECT_EQ(diagnosis.problems, 4);
  for (const char* const part : {"problem: node 0 (a): at most 512 open files. Raise",
                                 "problem: node 0 (a): at most 100 processes",
                                 "problem: node 0 (a): /dev/shm holds 64.0 MiB",
                                 "problem: node 0 (a): has 2 GPUs but no driver",
                                 "note: node 0 (a): at most 8.0 MiB of locked memory",
                                 "4 problems\n"})
    EXPECT_THAT(diagnosis.text, HasSubstr(part));
}

TEST(Doctor, TheFindingsOfANodesGpusHaveItsName) {
  NodeHealth node = healthy(0, "a");
  node.gpu_findings = {{"they are too hot."}, {"they are loud."}};
  const Diagnosis diagnosis = alone(node);
  EXPECT_EQ(diagnosis.problems, 1);
  EXPECT_THAT(diagnosis.text,
              HasSubstr("problem: node 0 (a): they are too hot.\n"
                        "note: node 0 (a): they are loud.\n1 problem\n"));
}

TEST(Doctor, DifferencesBetweenNodesAreNamedWithTheNodes) {
  std::vector nodes{healthy(0, "a"), healthy(1, "b"), healthy(2, "c")};
  nodes[1].version = "0.4.0";
  nodes[2].gpus.pop_back();
  nodes[2].driver = "";
  nodes[2].gpus.clear();
  const Diagnosis diagnosis = diagnose(3, nodes, {});
  EXPECT_EQ(diagnosis.problems, 1);
  EXPECT_THAT(
      diagnosis.text,
      HasSubstr("problem: versions of ddp-launch differ: 0.4.0 (node 1), 0.5.0 (node 0,2)."));
  EXPECT_THAT(diagnosis.text, HasSubstr("note: GPUs differ: 2 NVIDIA H200 (node 0,1), none"));
}

TEST(Doctor, APairThatDoesNotReachEachOtherIsAProblem) {
  const std::vector nodes{healthy(0, "a"), healthy(1, "b")};
  PeerCheck failed;
  failed.node_rank = 0;
  failed.error = "timed out after 5 s";
  const Diagnosis diagnosis =
      diagnose(2, nodes, std::vector{looks(0, {reached(1)}), looks(1, {failed})});
  EXPECT_EQ(diagnosis.problems, 1);
  EXPECT_THAT(diagnosis.text,
              HasSubstr("problem: node 1 (b) cannot reach node 0 (a) at 10.0.0.1 port 40000: timed "
                        "out after 5 s. Gloo and NCCL"));
  EXPECT_THAT(diagnosis.text, HasSubstr("0 of 1"));
  EXPECT_THAT(diagnosis.text, HasSubstr("1.1 GiB/s"));
}

TEST(Doctor, ClocksAndSlowLinksAreNotes) {
  const std::vector nodes{healthy(0, "a"), healthy(1, "b")};
  PeerCheck forth = reached(1);
  forth.clock_ahead = 3600s;
  forth.bytes_per_second = 12e6;
  PeerCheck back = reached(0);
  back.clock_ahead = -3600s;
  const Diagnosis diagnosis = diagnose(2, nodes, std::vector{looks(0, {forth}), looks(1, {back})});
  EXPECT_EQ(diagnosis.problems, 0);
  EXPECT_THAT(diagnosis.text,
              HasSubstr("note: the clock of node 1 (b) is 3600.0 s ahead of that of node 0 (a)."));
  EXPECT_THAT(diagnosis.text, Not(HasSubstr("behind")));
  EXPECT_THAT(diagnosis.text, HasSubstr("note: from node 0 (a) to node 1 (b) go 11.4 MiB/s"));
  EXPECT_THAT(diagnosis.text, HasSubstr("+3600.0 s"));
}

TEST(Doctor, ANodeThatIsLostAndManyProblemsAreToldInFewLines) {
  std::vector<NodeHealth> nodes;
  std::vector<NodeChecks> checks;
  for (int rank = 0; rank < 20; ++rank) {
    nodes.push_back(healthy(rank, "n"));
    checks.push_back(looks(rank, {}));
    for (int other = 0; other < 20 && rank != 7; ++other) {
      PeerCheck failed;
      failed.node_rank = other;
      failed.error = "no answer";
      if (other != rank) checks.back().peers.push_back(failed);
    }
  }
  const Diagnosis diagnosis = diagnose(20, nodes, checks);
  EXPECT_EQ(diagnosis.problems, 19 * 19 + 1);
  EXPECT_THAT(diagnosis.text, HasSubstr("\nand 312 problems more\n"));
  EXPECT_THAT(diagnosis.text, HasSubstr("\n362 problems\n"));
  const Diagnosis lost = diagnose(2,
                                  std::vector{healthy(0, "a"), healthy(1, "b")},
                                  std::vector{looks(0, {reached(1)}), looks(1, {})});
  EXPECT_THAT(lost.text, HasSubstr("problem: node 1 (b) told nothing of the others: it was lost"));
}

TEST(Doctor, ANodeThatDidNotComeIsAProblem) {
  const Diagnosis diagnosis = diagnose(3,
                                       std::vector{healthy(0, "a"), healthy(2, "c")},
                                       std::vector{looks(0, {reached(2)}), looks(2, {reached(0)})});
  EXPECT_EQ(diagnosis.problems, 1);
  EXPECT_THAT(diagnosis.text, HasSubstr("problem: node 1 did not come."));
}

}  // namespace
}  // namespace ddp::launcher
