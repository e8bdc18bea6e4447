#include "common/node/helper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/node/process_signals.h"
#include "common/text/split.h"

namespace ddp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kReapWait(100);

/// Closes all descriptors but one. Kernels before 5.9 lack close_range, but an end of our own pipe
/// must not stay open.
void close_all_but(int inherited_fd) {
  const auto kept = static_cast<unsigned>(inherited_fd);
  if (::close_range(0, kept - 1, 0) == 0 && ::close_range(kept + 1, ~0U, 0) == 0) return;
  const long limit = ::sysconf(_SC_OPEN_MAX);
  for (int fd = 0; fd < limit; ++fd)
    if (fd != inherited_fd) ::close(fd);
}

/// All that comes before the other end is closed, or until `deadline`.
HelperAnswer read_until(int fd, Clock::time_point deadline) {
  HelperAnswer answer;
  std::array<char, 4096> buffer;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd entry{fd, POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&entry, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return answer;
    const ssize_t size = ::read(fd, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    answer.text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  answer.is_whole = true;
  return answer;
}

/// What is thrown ends the helper here.
[[noreturn]] void run_and_end(const HelperBody& body, int inherited_fd) noexcept {
  body(inherited_fd);
  ::_exit(0);
}

/// Runs in the helper. Returns where the command cannot be started.
void become_command(int fd, std::vector<std::string>& words) {
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  const int answers = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  // A helper has closed 0 to 2, so this is 0 itself: it must not be close-on-exec.
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(answers, STDOUT_FILENO);
  ::dup2(nothing, STDERR_FILENO);
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
}

}  // namespace

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

pid_t fork_helper(const HelperBody& body, int inherited_fd) {
  pid_t pid = 0;
  {
    const SignalsBlocked blocked;
    pid = check(::fork(), "fork", "helper");
    if (pid == 0) {
      ::setsid();
      // All signals stay blocked: a signal to all processes of the terminal or of the user may end
      // the parent, but not a helper that cleans up after it. Its own abort must not run the
      // parent's handler.
      ::signal(SIGABRT, SIG_DFL);
      close_all_but(inherited_fd);
      run_and_end(body, inherited_fd);
    }
  }
  return pid;
}

void end_with_parent(std::chrono::seconds limit) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGALRM, SIG_DFL);
  sigset_t alarm;
  ::sigemptyset(&alarm);
  ::sigaddset(&alarm, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
  ::alarm(static_cast<unsigned int>(limit.count()));
}

HelperAnswer ask_helper(const HelperBody& body, std::chrono::seconds limit) {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC), "pipe2", "question to a helper");
  const Descriptor read_end(ends[0]);
  pid_t pid = 0;
  {
    const Descriptor write_end(ends[1]);
    pid = fork_helper(body, write_end.fd());
  }
  HelperAnswer answer = read_until(read_end.fd(), Clock::now() + limit);
  ::kill(-pid, SIGKILL);  // its session, which a command may have filled
  signal_process(pid, SIGKILL);
  reap_within(pid, kReapWait);
  return answer;
}

HelperAnswer ask_command(std::vector<std::string> words, std::chrono::seconds limit) {
  const HelperBody body = [&words, limit](int fd) {
    end_with_parent(limit + std::chrono::seconds(1));
    become_command(fd, words);
  };
  return ask_helper(body, limit);
}

PythonAnswer ask_python(const std::string& python,
                        const PythonQuestion& question,
                        std::chrono::seconds limit,
                        const std::map<std::string, std::string>& variables) {
  // Trap: it would take modules from the current directory, and run them.
  const std::string code = "import sys; sys.path[:] = [p for p in sys.path if p]; " +
                           question.statements + "; print(\"\\n" + question.mark + "\" + str(" +
                           question.expression + "))";
  std::vector<std::string> words;
  if (!variables.empty()) words.emplace_back("/usr/bin/env");
  for (const auto& [name, value] : variables)
    words.push_back(name + "=" + value);
  words.insert(words.end(), {python, "-c", code});
  const HelperAnswer answer = ask_command(std::move(words), limit);
  PythonAnswer found{.text = {}, .is_whole = answer.is_whole};
  for (const std::string_view line : split(answer.text, '\n'))
    if (line.starts_with(question.mark)) found.text = line.substr(question.mark.size());
  return found;
}

}  // namespace ddp
