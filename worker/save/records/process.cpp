#include "worker/save/records/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "common/error.h"
#include "common/node/environment.h"

namespace ddp::worker {
namespace {

/// What posix_spawn(3) does in the child before it executes the program.
class SpawnAttributes {
 public:
  explicit SpawnAttributes(int input) {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawn_file_actions_adddup2(&files_, input, STDIN_FILENO);
    ::posix_spawnattr_init(&attributes_);
    // The program starts with default signals, without those that we ignore or block.
    sigset_t none;
    sigset_t usual;
    ::sigemptyset(&none);
    ::sigemptyset(&usual);
    for (const int ignored : {SIGPIPE, SIGXFSZ})
      ::sigaddset(&usual, ignored);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &usual);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  ~SpawnAttributes() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  [[nodiscard]] const posix_spawn_file_actions_t* files() const { return &files_; }
  [[nodiscard]] const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

/// The arguments in the form of execve(2); valid as long as `words`.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string describe(const siginfo_t& ending) {
  if (ending.si_code == CLD_EXITED && ending.si_status == 0) return "";
  return ending.si_code == CLD_EXITED
             ? "it ended with exit code " + std::to_string(ending.si_status)
             : "it was killed by signal " + std::to_string(ending.si_status);
}

}  // namespace

Process::Process(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  check(::pipe2(ends.data(), O_CLOEXEC), "pipe2", command.at(0));
  const Descriptor theirs(ends[0]);
  input_ = Descriptor(ends[1]);
  (void)::fcntl(input_.fd(), F_SETFL, O_NONBLOCK);
  std::vector<std::string> words = command;
  const std::vector<char*> arguments = pointers_to(words);
  std::vector<std::string> variables;
  for (const auto& [name, text] : read_environment())
    variables.push_back(name + "=" + text);
  const std::vector<char*> environment = pointers_to(variables);
  const SpawnAttributes orders(theirs.fd());
  const int why_not = ::posix_spawnp(&pid_,
                                     arguments[0],
                                     orders.files(),
                                     orders.attributes(),
                                     arguments.data(),
                                     environment.data());
  if (why_not != 0) throw SystemError(system_message("start", command[0], why_not));
  pid_fd_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

Process::~Process() {
  close_input();
  if (!is_reaped_) {
    // The group's number cannot be reused until its leader is reaped.
    (void)::kill(-pid_, SIGKILL);
    siginfo_t ignored{};
    (void)::waitid(P_PID, static_cast<id_t>(pid_), &ignored, WEXITED);
  }
}

std::optional<std::size_t> Process::feed(std::string_view bytes) {
  if (input_.fd() < 0) return {};
  const ssize_t count = ::write(input_.fd(), bytes.data(), bytes.size());
  if (count >= 0) return static_cast<std::size_t>(count);
  return errno == EAGAIN || errno == EINTR ? std::optional<std::size_t>(0) : std::nullopt;
}

void Process::wait_for_room(std::chrono::milliseconds limit) const {
  pollfd room{input_.fd(), POLLOUT, 0};
  (void)::poll(&room, 1, static_cast<int>(limit.count()));
}

void Process::close_input() {
  input_ = Descriptor();
}

std::optional<std::string> Process::wait_until(Clock::time_point deadline) {
  if (is_reaped_) return "";
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd end{pid_fd_.fd(), POLLIN, 0};
  (void)::poll(&end, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  siginfo_t ending{};
  const int result = ::waitid(P_PID, static_cast<id_t>(pid_), &ending, WEXITED | WNOHANG | WNOWAIT);
  if (result != 0 || ending.si_pid == 0) return {};
  (void)::kill(-pid_, SIGKILL);  // processes that the program has left behind
  (void)::waitid(P_PID, static_cast<id_t>(pid_), &ending, WEXITED);
  is_reaped_ = true;
  return describe(ending);
}

}  // namespace ddp::worker
