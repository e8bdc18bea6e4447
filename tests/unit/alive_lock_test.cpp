#include "common/progress/alive_lock.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

namespace ddp {
namespace {

/// Runs `work` in a child, which is killed then. Returns its pid; it is not reaped.
pid_t run_and_kill(const std::function<void()>& work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    work();
    ::raise(SIGKILL);
  }
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  return pid;
}

TEST(AliveLock, ANewPagesLockIsHeldByNobody) {
  const MappedProgressPage page = MappedProgressPage::create();
  EXPECT_EQ(alive_word(*page), 0U);
  EXPECT_FALSE(is_held_by(alive_word(*page), ::getpid()));
}

TEST(AliveLock, TheMainThreadThatOpensThePageHoldsItUntilThePageIsUnmapped) {
  const MappedProgressPage agent = MappedProgressPage::create();
  {
    const MappedProgressPage worker = MappedProgressPage::open(::dup(agent.fd()));
    EXPECT_TRUE(is_held_by(alive_word(*agent), ::getpid()));
    EXPECT_FALSE(is_held_by(alive_word(*agent), ::getpid() + 1));
  }
  EXPECT_EQ(alive_word(*agent), 0U);
}

TEST(AliveLock, AnotherThreadDoesNotTakeIt) {
  const MappedProgressPage agent = MappedProgressPage::create();
  std::thread([&] {
    const MappedProgressPage worker = MappedProgressPage::open(::dup(agent.fd()));
    EXPECT_EQ(alive_word(*agent), 0U);
  }).join();
}

TEST(AliveLock, TheKernelMarksItWhenItsHolderIsKilled) {
  const MappedProgressPage agent = MappedProgressPage::create();
  const pid_t pid = run_and_kill([&] { take_alive_lock(*agent); });
  EXPECT_NE(alive_word(*agent) & FUTEX_OWNER_DIED, 0U);
  EXPECT_FALSE(is_held_by(alive_word(*agent), pid));
  ::waitpid(pid, nullptr, 0);
}

TEST(AliveLock, TheNextProcessWithThePageTakesItAfterADeath) {
  const MappedProgressPage agent = MappedProgressPage::create();
  ::waitpid(run_and_kill([&] { take_alive_lock(*agent); }), nullptr, 0);
  const pid_t second = run_and_kill([&] {
    take_alive_lock(*agent);
    agent->step = is_held_by(alive_word(*agent), ::getpid()) ? 1 : 0;
  });
  ::waitpid(second, nullptr, 0);
  EXPECT_EQ(agent->step, 1);
}

TEST(AliveLock, AnotherProcessDoesNotReleaseIt) {
  const MappedProgressPage agent = MappedProgressPage::create();
  take_alive_lock(*agent);
  ::waitpid(run_and_kill([&] { release_alive_lock(*agent); }), nullptr, 0);
  EXPECT_TRUE(is_held_by(alive_word(*agent), ::getpid()));
}

}  // namespace
}  // namespace ddp
