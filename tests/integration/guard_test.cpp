// The guard of an agent that lives, but hears nothing (the lease of row L4 of
// tests/fault/CASES.md). What it does for an agent that is dead is in tests/fault/.
#include "launcher/os/guard.h"

#include <signal.h>

#include "launcher/os/descendants.h"
#include "tests/support/process_test.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

class GuardTest : public test::ProcessTest {
 protected:
  std::unique_ptr<test::Running> start_worker(const std::string& agent_id) {
    auto worker = start({.arguments = {DDP_FAKE_WORKER, "print", "ready", "hold"},
                         .environment = {{"DDP_RUN_ID", agent_id}, {"DDP_AGENT_ID", agent_id}}});
    EXPECT_TRUE(worker->sees("ready"));
    return worker;
  }

  Guard guard_{marker(), scratch()};
};

TEST_F(GuardTest, LeaseOverKillsWhatTheAgentStartedButNotTheAgent) {
  const auto worker = start_worker(marker());
  const auto unrelated = start_worker("another");
  guard_.set_lease(300ms);
  EXPECT_FALSE(guard_.is_lease_over());
  EXPECT_EQ(worker->wait(), -SIGKILL);
  EXPECT_GE(worker->lived(), 300ms);
  EXPECT_TRUE(guard_.is_lease_over());
  EXPECT_TRUE(test::lives_on(unrelated->pid()));
  EXPECT_TRUE(test::eventually([&] { return test::state_of(guard_.pid()) == "S"; }, 5s));
  guard_.disarm();
  EXPECT_TRUE(test::eventually([&] { return test::state_of(guard_.pid()) == "Z"; }, 5s));
  EXPECT_TRUE(std::filesystem::exists(scratch()));  // the agent tidies
}

TEST_F(GuardTest, SessionsCoveredAfterTheLeaseExpiredAreKilled) {
  const auto early = start_worker(marker());
  guard_.set_lease(10ms);
  EXPECT_EQ(early->wait(), -SIGKILL);
  const auto late = start({.arguments = {"/usr/bin/setsid", DDP_FAKE_WORKER, "pid", "hold"}});
  ASSERT_TRUE(late->sees("pid "));
  guard_.watch_session(session_of(late->number_after("pid ")));
  EXPECT_EQ(late->wait(), -SIGKILL);
}

TEST_F(GuardTest, HeartbeatsKeepTheWorkersAliveUntilTheyStop) {
  const auto worker = start_worker(marker());
  guard_.set_lease(1s);
  for (int i = 0; i < 30; ++i) {
    worker->read_for(100ms);
    guard_.renew_lease();
  }
  EXPECT_FALSE(guard_.is_lease_over());
  EXPECT_TRUE(test::lives_on(worker->pid()));
  EXPECT_EQ(worker->wait(), -SIGKILL);
  EXPECT_GE(worker->lived(), 4s);
  guard_.renew_lease();
  EXPECT_TRUE(guard_.is_lease_over());  // for good
}

TEST_F(GuardTest, HeartbeatsThatItReadsLateHaveComeAllTheSame) {
  const auto worker = start_worker(marker());
  guard_.set_lease(1s);
  test::send_signal(guard_.pid(), SIGSTOP);
  for (int i = 0; i < 20; ++i) {
    worker->read_for(100ms);
    guard_.renew_lease();
  }
  test::send_signal(guard_.pid(), SIGCONT);
  worker->read_for(300ms);
  EXPECT_TRUE(test::lives_on(worker->pid()));
  EXPECT_EQ(worker->wait(), -SIGKILL);
}

TEST_F(GuardTest, NothingIsKilledWithoutALease) {
  const auto worker = start_worker(marker());
  guard_.renew_lease();
  worker->read_for(300ms);
  EXPECT_FALSE(guard_.is_lease_over());
  EXPECT_TRUE(test::lives_on(worker->pid()));
  worker->signal(SIGKILL);
  EXPECT_EQ(worker->wait(), -SIGKILL);
}

}  // namespace
}  // namespace ddp::launcher
