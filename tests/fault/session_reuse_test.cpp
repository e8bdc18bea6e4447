// After a session number is reused, the guard kills its own session's processes and no others. Row
// A9 of CASES.md; the kernel is told which number to give.
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/os/descendants.h"
#include "launcher/os/guard.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using launcher::Guard;
using launcher::session_of;

/// Leads a session and waits, once `ready` has been told; with `has_child` a member of it does the
/// same, and its pid is told too.
void lead(int ready, bool has_child) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setsid();
  pid_t pid = has_child ? ::fork() : 0;
  if (!has_child || pid > 0) {
    if (::write(ready, &pid, sizeof pid) < 0) ::raise(SIGKILL);
  }
  while (true)
    ::pause();
}

struct Leader {
  pid_t pid = -1;
  pid_t member = 0;
};

/// With that pid, if it is not 0; clone3(2), set_tid. No process: it is not allowed to choose.
Leader start_leader(bool has_child, pid_t wanted = 0) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  if (wanted != 0) {
    arguments.set_tid = reinterpret_cast<std::uint64_t>(&wanted);
    arguments.set_tid_size = 1;
  }
  Leader leader;
  leader.pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
  if (leader.pid == 0) lead(ends[1], has_child);
  ::close(ends[1]);
  if (leader.pid > 0 && ::read(ends[0], &leader.member, sizeof leader.member) <= 0) leader.pid = -1;
  ::close(ends[0]);
  return leader;
}

void end(pid_t pid) {
  send_signal(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

class SessionReuse : public ProcessTest {
 protected:
  Guard guard_{marker(), scratch()};
};

TEST_F(SessionReuse, A9_AProcessWithTheNumberOfAnEndedSessionIsNotKilled) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to choose a pid";
  const Leader first = start_leader(false);
  ASSERT_GT(first.pid, 0);
  guard_.watch_session(session_of(first.pid));
  const Leader known = start_leader(false);
  guard_.watch_session(session_of(known.pid));
  // A tick of the clock of start times: the next one is another process by that, too.
  const std::uint64_t tick = launcher::boot_ticks();
  ASSERT_TRUE(eventually([tick] { return launcher::boot_ticks() > tick + 1; }, kTestTimeout));
  end(first.pid);
  const Leader second = start_leader(true, first.pid);
  ASSERT_EQ(second.pid, first.pid) << "clone3 did not give that pid";
  guard_.set_lease(1ms);
  EXPECT_TRUE(eventually([&] { return state_of(known.pid) == "Z"; }, kTestTimeout));
  guard_.disarm();
  EXPECT_TRUE(eventually([this] { return state_of(guard_.pid()) == "Z"; }, kTestTimeout));
  EXPECT_TRUE(lives_on(second.pid));
  EXPECT_TRUE(lives_on(second.member));
  send_signal(second.member, SIGKILL);
  end(second.pid);
  ::waitpid(known.pid, nullptr, 0);
}

TEST_F(SessionReuse, A9_AProcessThatOutlivesItsLeaderIsKilledAllTheSame) {
  const Leader leader = start_leader(true);
  ASSERT_GT(leader.pid, 0);
  ASSERT_EQ(state_of(leader.member).size(), 1U);
  guard_.watch_session(session_of(leader.pid));
  end(leader.pid);  // and reaped: only a member holds the number
  ASSERT_NE(state_of(leader.member), "");
  guard_.set_lease(1ms);
  EXPECT_TRUE(eventually(
      [&] {
        const std::string state = state_of(leader.member);
        return state.empty() || state == "Z";
      },
      kTestTimeout));
  guard_.disarm();
}

}  // namespace
}  // namespace ddp::test
