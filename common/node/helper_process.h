// A helper: a fork of this process for what may never return, or must outlive us. Each program
// forks such a child here and nowhere else.
// Trap: the death signal is sent when the forking *thread* ends (prctl(2)).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

/// Blocks all signals while it lives, so that no handler of the parent runs in a child.
class SignalsBlocked {
 public:
  SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked();
  [[nodiscard]] const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

/// What a helper does. An exception would unwind into the parent's code: it ends the helper.
using HelperBody = std::function<void(int fd)>;

/// Forks a helper: new session, all signals blocked, no descriptor but `inherited_fd`, never
/// returns from `body`. The caller reaps the pid. Errors: SystemError.
pid_t fork_helper(const HelperBody& body, int inherited_fd);

/// For a helper's body: if its parent is killed, the kernel ends this process. If the parent was
/// killed before this call, an alarm ends it after `limit`.
void end_with_parent(std::chrono::seconds limit);

/// What a helper has written.
struct HelperAnswer {
  std::string text;
  bool is_whole = false;  // it has ended by itself; false: it was ended at the limit
};

/// Runs `body` in a helper that ends with us, and reads what it writes into its descriptor. Blocks:
/// until the helper has ended, at most `limit`; then it is killed, and waited for 100 ms more. One
/// that is stuck in the driver dies later, and stays our zombie until we end. Errors: SystemError.
HelperAnswer ask_helper(const HelperBody& body, std::chrono::seconds limit);

/// As ask_helper(), of a command that is found on the PATH; it reads nothing, and what it writes
/// into stderr is dropped. No text: it cannot be started, or has printed nothing.
HelperAnswer ask_command(std::vector<std::string> words, std::chrono::seconds limit);

/// What a Python was asked for.
struct PythonQuestion {
  std::string statements;  // are run first, on one line
  std::string mark;        // begins the line of the answer: what is imported may print, too
  std::string expression;  // its text is the answer
};

struct PythonAnswer {
  std::optional<std::string> text;  // nothing: it does not answer, or fails
  bool is_whole = false;            // as of HelperAnswer
};

/// As ask_command(). `python` is a path, or a name that is searched on PATH. It takes no modules
/// from the current directory. `variables` are added to our environment.
PythonAnswer ask_python(const std::string& python,
                        const PythonQuestion& question,
                        std::chrono::seconds limit,
                        const std::map<std::string, std::string>& variables = {});

}  // namespace ddp
