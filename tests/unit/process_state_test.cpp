#include "launcher/os/process_state.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "common/node/process_signals.h"

namespace ddp::launcher {
namespace {

pid_t start(const std::function<void()>& work) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  work();
  while (true)
    ::pause();
}

/// Waits for what `options` of waitid(2) say, and leaves it to be waited for again.
void wait_until(pid_t pid, int options) {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid), &info, options | WNOWAIT);
}

void reap(pid_t pid) {
  signal_process(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST(ProcessState, OneThatLivesDoesNotEnd) {
  const pid_t pid = start([] {});
  EXPECT_FALSE(read_process_state(pid).is_exiting);
  EXPECT_FALSE(ends_as_a_whole(pid));
  signal_process(pid, SIGSTOP);
  wait_until(pid, WSTOPPED);
  EXPECT_FALSE(ends_as_a_whole(pid));
  reap(pid);
}

TEST(ProcessState, TheStatusOfOneThatWasKilledIsKnownBeforeTheWait) {
  const pid_t pid = start([] {
    std::thread other([] { ::pause(); });
    ::raise(SIGKILL);
  });
  wait_until(pid, WEXITED);
  EXPECT_TRUE(ends_as_a_whole(pid));
  const int status = read_process_state(pid).wait_status;
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  reap(pid);
}

TEST(ProcessState, OneWhoseMainThreadAloneHasEndedGoesOn) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t pid = start([&] {
    std::thread other([&] {
      while (!read_main_thread_state(::getpid()).is_exiting)
        std::this_thread::yield();
      [[maybe_unused]] const ssize_t written = ::write(ready[1], "x", 1);
      ::pause();
    });
    ::syscall(SYS_exit, 5);  // of this thread alone
  });
  char letter = 0;
  ASSERT_EQ(::read(ready[0], &letter, 1), 1);
  EXPECT_TRUE(read_process_state(pid).is_exiting);
  EXPECT_FALSE(ends_as_a_whole(pid));
  signal_process(pid, SIGSTOP);
  wait_until(pid, WSTOPPED);
  EXPECT_FALSE(ends_as_a_whole(pid)) << "the kernel shows the signal in place of an exit code";
  reap(pid);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace ddp::launcher
