// Clocks of several nodes differ, jump, and stand still: rows T of CASES.md. Wall clocks
// by libfaketime where it is installed, steady clocks by time namespaces. DDP_SUSPEND_SECONDS sets
// for how long a node is suspended.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "common/node/environment.h"
#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr char kFaketime[] = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

class ClockFaults : public ClusterTest {
 protected:
  /// The wall clock is what `file` says, again and again.
  static std::map<std::string, std::string> wall_clock(const std::string& file) {
    return {{"LD_PRELOAD", kFaketime},
            {"FAKETIME_TIMESTAMP_FILE", file},
            {"FAKETIME_NO_CACHE", "1"},
            {"FAKETIME_DONT_FAKE_MONOTONIC", "1"}};
  }
};

TEST_F(ClockFaults, T1_AWallClockThatJumpsEndsNoLease) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  if (kInstrumented) GTEST_SKIP() << "libfaketime and a sanitizer do not go together";
  if (!std::filesystem::exists(kFaketime)) GTEST_SKIP() << "needs Debian's libfaketime";
  const std::string file = write_file("clock", "+0\n");
  Agents agents;
  for (const int node : {0, 1})
    agents.push_back(launch_on(node, "print ready wait USR1", {}, wall_clock(file)));
  ASSERT_TRUE(all_see(agents, "ready"));
  for (const char* const offset : {"+1h\n", "-1h\n", "+10y\n"}) {
    std::ofstream(file) << offset;
    agents[0]->read_for(1500ms);
  }
  const auto begin = steady_clock::now();
  signal_workers(SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 0, 1s));
}

TEST_F(ClockFaults, T3_WallClocksThatDifferByADayHideNoRootCause) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  if (kInstrumented) GTEST_SKIP() << "libfaketime and a sanitizer do not go together";
  if (!std::filesystem::exists(kFaketime)) GTEST_SKIP() << "needs Debian's libfaketime";
  const std::string file = write_file("clock", "-1d\n");
  Agents agents;
  const std::string verbs =
      "print ready on 1 [ wait USR1 exit 7 ] on 2 [ wait TERM exit 8 ] wait TERM";
  agents.push_back(launch_on(0, verbs));
  agents.push_back(launch_on(1, verbs, {}, wall_clock(file)));
  ASSERT_TRUE(all_see(agents, "ready"));
  const auto begin = steady_clock::now();
  send_signal(worker(1), SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 7, 1s));
  EXPECT_THAT(report_of(*agents[1]), HasSubstr("rank      : 1 (local_rank: 1)"));
}

// Who failed first is known by steady clocks, and those begin when a machine boots. What node 1
// tells is late here: without its clock, node 2 would be first.
TEST_F(ClockFaults, T3_TheFirstFailureIsTheRootCauseThoughItIsToldLast) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  cluster().shift_boot_clock(1, std::chrono::hours(1000));
  cluster().shift_boot_clock(2, std::chrono::hours(30));
  const auto agents =
      launch_everywhere("print ready on 2 [ wait USR1 exit 7 ] on 4 [ wait USR1 exit 8 ] hold");
  ASSERT_TRUE(all_see(agents, "ready"));
  agents[0]->read_for(2500ms);  // heartbeats tell the offsets of the clocks
  const pid_t first = worker(2);
  const pid_t second = worker(4);
  const auto begin = steady_clock::now();
  cluster().drop(1, 0);
  send_signal(first, SIGUSR1);
  agents[0]->read_for(100ms);
  send_signal(second, SIGUSR1);
  EXPECT_TRUE(agents[0]->sees("rank 4")) << agents[0]->err();
  cluster().heal(0);
  EXPECT_TRUE(all_end(ends_of(agents, begin), 7, 3s));
  for (const auto& agent : agents)
    EXPECT_THAT(report_of(*agent), HasSubstr("rank      : 2 (local_rank: 0)"));
}

// Everything of a node stops at once, its kernel too: nothing that it sends or is sent arrives. Its
// steady clock stands still, so by that clock it has missed nothing when it wakes up.
class SuspendedNode : public ClusterTest {
 protected:
  /// For an agent of the node that will be suspended.
  std::map<std::string, std::string> its_clocks() const {
    return {{"LD_PRELOAD", DDP_SUSPENDED_LIBRARY}, {"DDP_SUSPENDED", file_.string()}};
  }

  void suspend(int node, const Running& agent) {
    pids_ = processes_beside(agent);
    node_ = node;
    cluster().unplug(node);
    for (const pid_t pid : pids_)
      send_signal(pid, SIGSTOP);
    begin_ = steady_clock::now();
  }

  /// Its workers first: none of them may get far.
  steady_clock::time_point wake_up() {
    const auto awake = steady_clock::now();
    const std::int64_t slept = std::chrono::nanoseconds(awake - begin_).count();
    std::ofstream(file_, std::ios::binary).write(reinterpret_cast<const char*>(&slept), 8);
    cluster().plug_in(node_);
    std::sort(pids_.rbegin(), pids_.rend());
    for (const pid_t pid : pids_)
      send_signal(pid, SIGCONT);
    return awake;
  }

  /// Since it fell asleep.
  milliseconds left_to_sleep() const {
    const auto text = find_variable(read_environment(), "DDP_SUSPEND_SECONDS");
    const auto end = begin_ + std::chrono::seconds(text ? std::stoi(*text) : 9);
    return std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
  }

 private:
  const std::filesystem::path file_ = write_file("suspended", std::string(8, '\0'));
  std::vector<pid_t> pids_;
  int node_ = 0;
  steady_clock::time_point begin_;
};

TEST_F(SuspendedNode, T2_ANodeThatWakesUpAfterASpareReplacedItEndsItsWorkersAndBy201) {
  if (kInstrumented) GTEST_SKIP() << "a preloaded library and a sanitizer do not go together";
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  const std::vector<std::string> flags{
      "--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", "--replace-timeout=20s"};
  const std::string verbs = "round 0 [ print ready ] round 1 [ print again ] wait USR1";
  Agents agents;
  agents.push_back(launch_unranked(0, verbs, flags));
  ASSERT_TRUE(listens(*agents[0]));
  agents.push_back(launch_unranked(1, verbs, flags, its_clocks()));
  ASSERT_TRUE(agents[0]->sees("[0:0] ready") && agents[1]->sees("[1:1] ready"));
  agents.push_back(launch_unranked(2, verbs, flags));
  ASSERT_TRUE(agents[0]->sees("node2 has joined"));

  suspend(1, *agents[1]);
  ASSERT_TRUE(agents[2]->sees("[1:1] again")) << agents[0]->err();
  agents[0]->read_for(left_to_sleep());
  EXPECT_EQ(state_of(agents[1]->pid()), "T");
  const auto awake = wake_up();
  EXPECT_EQ(agents[1]->wait(6s), 201);
  EXPECT_THAT(agents[1]->err(), HasSubstr("fenced")) << agents[1]->err();
  const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - awake);
  std::cout << "it had ended " << took.count() << " ms after it woke up" << std::endl;
  EXPECT_EQ(workers_of(1).size(), 1U) << "rank 1 lives twice, or not at all";
  agents.erase(agents.begin() + 1);
  signal_workers(SIGUSR1);
  EXPECT_TRUE(all_end(ends_of(agents, steady_clock::now()), 0, 1s));
}

TEST_F(SuspendedNode, T2_ANode0ThatWakesUpEndsItsWorkersAndBy201) {
  if (kInstrumented) GTEST_SKIP() << "a preloaded library and a sanitizer do not go together";
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  Agents agents;
  agents.push_back(launch_on(0, "print ready hold", {}, its_clocks()));
  agents.push_back(launch_on(1, "print ready hold"));
  ASSERT_TRUE(all_see(agents, "ready"));
  suspend(0, *agents[0]);
  EXPECT_EQ(agents[1]->wait(6s), 201);
  agents[0]->read_for(left_to_sleep());
  const auto awake = wake_up();
  EXPECT_TRUE(within(workers_gone(0, awake), 6s));
  EXPECT_EQ(agents[0]->wait(6s), 201);
  EXPECT_THAT(agents[0]->err(), HasSubstr("fenced")) << agents[0]->err();
}

}  // namespace
}  // namespace ddp::test
