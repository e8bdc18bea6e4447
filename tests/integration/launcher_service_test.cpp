// ddp-launch as a service of systemd (Type=notify, WatchdogSec), with a stand-in for systemd.
#include <gmock/gmock.h>
#include <signal.h>

#include "tests/support/notify_socket.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

class LauncherService : public ProcessTest {
 protected:
  /// Until `wanted` has been told `times` times.
  bool hears(const std::string& wanted, std::ptrdiff_t times) {
    return eventually(
        [&] {
          for (const std::string& state : manager_.heard())
            told_.push_back(state);
          return std::count(told_.begin(), told_.end(), wanted) >= times;
        },
        kTestTimeout);
  }
  std::unique_ptr<Running> start_service(const std::string& watchdog_usec) {
    return start({{DDP_LAUNCH, "--grace=2s", DDP_FAKE_WORKER, "print", "up", "hold"},
                  {{"NOTIFY_SOCKET", path_}, {"WATCHDOG_USEC", watchdog_usec}}});
  }

  const std::string path_ = scratch() / "notify";
  NotifySocket manager_{path_};
  std::vector<std::string> told_;
};

TEST_F(LauncherService, ServiceManagerIsToldReadyWatchdogAndStopping) {
  const auto job = start_service("100000");
  EXPECT_TRUE(hears("WATCHDOG=1", 5));
  EXPECT_EQ(told_.front(), "READY=1");
  EXPECT_TRUE(job->sees("up"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_TRUE(hears("STOPPING=1", 1));
  EXPECT_EQ(told_.back(), "STOPPING=1");
}

TEST_F(LauncherService, AStoppedAgentSaysNothing) {
  const auto job = start_service("20000");
  EXPECT_TRUE(hears("WATCHDOG=1", 1));
  job->signal(SIGSTOP);
  EXPECT_TRUE(eventually([&] { return state_of(job->pid()) == "T"; }, kTestTimeout));
  (void)manager_.heard();
  // Ten times what a watchdog would wait for.
  EXPECT_FALSE(
      eventually([&] { return !manager_.heard().empty(); }, std::chrono::milliseconds(200)));
  job->signal(SIGCONT);
  told_.clear();
  EXPECT_TRUE(hears("WATCHDOG=1", 1));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

}  // namespace
}  // namespace ddp::test
