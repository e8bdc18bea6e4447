// A second user of this machine, for tests that run as root: nobody, or any number that has no
// name.
#pragma once

#include <grp.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace ddp::test {

constexpr uid_t kOtherUser = 65534;

/// This process becomes that user, for good. Returns whether it could.
inline bool become_user(uid_t user) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(user, user, user) == 0 &&
         ::setresuid(user, user, user) == 0;
}

/// Runs `work`, which says whether it went well, in a child that is that user. False too when
/// nobody can become it.
template <typename Work>
bool as_user(uid_t user, Work work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Nothing of the test's own may run at its end, so it ends by a signal that says how it went.
    ::signal(SIGALRM, SIG_DFL);
    ::raise(become_user(user) && work() ? SIGKILL : SIGALRM);
  }
  int status = -1;
  return pid > 0 && ::waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL;
}

/// Before a command's words: it is run by that user.
inline std::vector<std::string> words_as(uid_t user) {
  const std::string number = std::to_string(user);
  return {"/usr/bin/setpriv", "--reuid=" + number, "--regid=" + number, "--clear-groups"};
}

}  // namespace ddp::test
