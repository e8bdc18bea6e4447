// `ddp-launch doctor` on one node and on several, with networks that let only some of them through.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "common/node/driver_query.h"
#include "common/node/proc_gpus.h"
#include "tests/support/cluster.h"
#include "tests/support/fake_node.h"
#include "tests/support/store_client.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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

TEST_F(Doctor, DoctorTakesFlagsAndAProgram) {
  auto wrong = launch({"doctor", "--nonsense"});
  EXPECT_EQ(wrong->wait(), 2);
  auto missing = launch({"doctor", "--nproc-per-node=1", "no-such-program"});
  EXPECT_EQ(missing->wait(), 127) << missing->err();
  auto there = launch({"doctor", "--nproc-per-node=1", DDP_FAKE_WORKER, "exit", "5"});
  EXPECT_LT(there->wait(), 2) << there->err();
}

// The driver's libraries and ddp-worker's module for GPUs are played by stand-ins.
class DoctorOnGpus : public ProcessTest {
 protected:
  void SetUp() override {
    if (!find_gpus().empty()) GTEST_SKIP() << "needs a machine without GPUs";
    std::filesystem::create_directory(bin_);
    std::filesystem::copy_file(DDP_LAUNCH, bin_ / "ddp-launch");
    std::filesystem::copy_file(DDP_FAKE_WORKER, bin_ / "ddp-worker");
    std::filesystem::copy_file(DDP_FAKE_MODULE, module_);
  }
  /// What doctor prints of a node with two GPUs, as `driver` makes them.
  std::string look(std::map<std::string, std::string> driver = {},
                   const std::string& libraries = DDP_FAKE_CUDA_DIR ":" DDP_FAKE_NVML_DIR) {
    driver["LD_LIBRARY_PATH"] = libraries;
    auto doctor = start({.arguments = {(bin_ / "ddp-launch").string(), "doctor"},
                         .environment = std::move(driver)});
    code_ = doctor->wait();
    return doctor->out() + doctor->err();
  }
  /// Of the problems and notes those that are about GPUs, as the machine may have others.
  static std::string findings(const std::string& text) {
    std::string found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const bool is_one = line.starts_with("problem: ") || line.starts_with("note: ");
      const bool is_other = line.find("/dev/shm holds") != std::string::npos ||
                            line.find("locked memory") != std::string::npos ||
                            line.find("open files") != std::string::npos ||
                            line.find("processes and threads") != std::string::npos;
      if (is_one && !is_other) found += line + "\n";
    }
    return found;
  }

  const std::filesystem::path bin_ = scratch() / "bin";
  const std::filesystem::path module_ = bin_ / "libddp-worker-cuda.so";
  int code_ = 0;
};

TEST_F(DoctorOnGpus, TwoHealthyOnesAreInTheTableAndNowhereElse) {
  const std::string text = look();
  EXPECT_THAT(text, HasSubstr("  2 Fake GPU  580.65.06\n"));
  EXPECT_EQ(findings(text), "");
}

TEST_F(DoctorOnGpus, GpusWithoutPeerAccessGiveANote) {
  EXPECT_THAT(findings(look({{"DDP_FAKE_PEERS", "0"}})),
              AllOf(StartsWith("note: node 0 ("),
                    HasSubstr("): its GPUs cannot access each other's memory: NCCL copies")));
}

TEST_F(DoctorOnGpus, UsedGpuIsNamedWithItsProcesses) {
  const std::string holders = write_file("holders", "1 41\n1 42\n");
  EXPECT_THAT(findings(look({{"DDP_FAKE_NVML", holders}, {"DDP_FAKE_NVML_FREE", "81920 1024"}})),
              AllOf(StartsWith("note: node 0 ("),
                    HasSubstr("): GPU 1 (Fake GPU): only 1.0 GiB of 80.0 GiB are free, used by pid "
                              "41, 42. End what holds it")));
}

TEST_F(DoctorOnGpus, ADriverThatIsTooOldForTheModuleIsAProblem) {
  EXPECT_THAT(findings(look({{"DDP_FAKE_CUDA", "12040"}})),
              AllOf(StartsWith("problem: node 0 ("),
                    HasSubstr("): the NVIDIA driver 580.65.06 knows CUDA 12.4, LibTorch is built "
                              "with 13.0: update the driver to 580 or newer.")));
  EXPECT_EQ(code_, 1);
  std::filesystem::remove(module_);
  EXPECT_THAT(findings(look({{"DDP_FAKE_CUDA", "12040"}})),
              AllOf(StartsWith("note: node 0 ("), HasSubstr("ddp-worker has no module for GPUs")));
}

TEST_F(DoctorOnGpus, TheModuleInThePackageOfPipIsFound) {
  const std::filesystem::path site = scratch() / "lib/python3.11/site-packages";
  const std::filesystem::path worker = site / "ddp_worker/torch-2.15";
  for (const char* folder : {"bin", "lib"})
    std::filesystem::create_directories(worker / folder);
  std::filesystem::create_directories(site / "torch/lib");
  std::ofstream(site / "torch/version.py") << "__version__ = '2.15.0'\n";
  std::ofstream(site / "torch/lib/libtorch_cpu.so") << "";
  std::filesystem::copy_file(DDP_FAKE_WORKER, worker / "bin/ddp-worker");
  std::filesystem::rename(module_, worker / "lib" / module_.filename());
  EXPECT_EQ(findings(look()), "");
}

TEST_F(DoctorOnGpus, AModuleThatDoesNotOpenIsAProblemWithTheLoadersReason) {
  std::ofstream(module_) << "no library";
  EXPECT_THAT(findings(look()),
              AllOf(StartsWith("problem: node 0 ("),
                    HasSubstr("): ddp-worker's module for GPUs cannot be used: "),
                    HasSubstr("libddp-worker-cuda.so: ")));
}

TEST_F(DoctorOnGpus, ADriverThatIsOutOfOrderIsNamedByWhatItGives) {
  const std::map<std::string, std::string> reasons{
      {"100", "note: node 0 \\(.*\\): the NVIDIA driver \\(cuInit: 100\\) finds no GPU\\..*\n"},
      {"803", "problem: node 0 .* \\(cuInit: 803\\) and the one in the kernel are of two .*\n"},
      {"999", "problem: node 0 .* \\(cuInit: 999\\) fails for a reason that it does not .*\n"}};
  for (const auto& [result, reason] : reasons)
    EXPECT_THAT(findings(look({{"DDP_FAKE_CUINIT", result}}, DDP_FAKE_CUDA_DIR)),
                ContainsRegex(reason));
}

TEST_F(DoctorOnGpus, ADriverThatHangsIsAProblemWithinItsLimit) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(findings(look({{"DDP_FAKE_CUINIT", "hang"}})),
              AllOf(StartsWith("problem: node 0 ("),
                    HasSubstr("): the NVIDIA driver has not answered within 10 s.")));
  EXPECT_EQ(code_, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);  // 10 s on an idle machine
  EXPECT_TRUE(nothing_lives_within(1s)) << testing::PrintToString(alive());
}

// Who had found it would wait for its answer meanwhile, give up, and be a duplicate of itself
// later.
TEST_F(DoctorOnGpus, OtherNodesFindNode0OnceItHasCheckedItself) {
  const int port = free_port();
  const auto begin = std::chrono::steady_clock::now();
  auto doctor =
      start({.arguments = {(bin_ / "ddp-launch").string(),
                           "doctor",
                           "--nnodes=2",
                           "--node-rank=0",
                           "--master-addr=127.0.0.1",
                           "--master-port=" + std::to_string(port)},
             .environment = {{"LD_LIBRARY_PATH", DDP_FAKE_CUDA_DIR}, {"DDP_FAKE_CUINIT", "hang"}}});
  const auto is_found = [port] {
    try {
      const StoreClient client(port, false);
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  };
  EXPECT_TRUE(eventually(is_found, 60s)) << doctor->err();
  EXPECT_GE(std::chrono::steady_clock::now(), begin + kDriverLimit);
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

TEST_F(DoctorOnNodes, KilledDoctorMayJoinAgain) {
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
