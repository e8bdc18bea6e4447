// Clocks of several nodes differ, and jump: rows T of the list of faults. Wall clocks by
// libfaketime where it is installed, steady clocks by time namespaces.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

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
  cluster().booted_earlier(1, std::chrono::hours(1000));
  cluster().booted_earlier(2, std::chrono::hours(30));
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

}  // namespace
}  // namespace ddp::test
