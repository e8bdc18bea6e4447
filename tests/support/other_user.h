// Another user of this machine, played by a forked child of the test. It takes root to become one:
// elsewhere such tests are skipped and counted (`root` in expected_skips).
#pragma once

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/send_signal.h"

namespace ddp::test {

inline constexpr uid_t kOtherUser = 65534;  // nobody

inline bool can_be_other_user() {
  return ::geteuid() == 0;
}

/// This process becomes that user, for good. Returns whether it could.
inline bool become_user(uid_t user) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(user, user, user) == 0 &&
         ::setresuid(user, user, user) == 0;
}

/// Before a command's words: it is run by that user.
inline std::vector<std::string> words_as(uid_t user) {
  const std::string number = std::to_string(user);
  return {"/usr/bin/setpriv", "--reuid=" + number, "--regid=" + number, "--clear-groups"};
}

/// Another user's work in a child process, which the destructor kills.
class OtherUser {
 public:
  /// Runs `work` as that user; its result is the exit code. `work` may use the test's memory, but
  /// no EXPECT.
  explicit OtherUser(const std::function<int()>& work, uid_t user = kOtherUser) : pid_(::fork()) {
    if (pid_ < 0) throw std::runtime_error("fork");
    if (pid_ > 0) return;
    ::_exit(become_user(user) ? work() : 125);
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;
  ~OtherUser() {
    if (pid_ < 0) return;
    send_signal(pid_, SIGKILL);
    wait();
  }

  [[nodiscard]] pid_t pid() const { return pid_; }

  /// The exit code, or -n for signal n.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

inline int as_other_user(const std::function<int()>& work) {
  return OtherUser(work).wait();
}

/// `work` says whether it went well.
inline bool as_user(uid_t user, const std::function<bool()>& work) {
  return OtherUser([&] { return work() ? 0 : 1; }, user).wait() == 0;
}

}  // namespace ddp::test
