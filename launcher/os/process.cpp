#include "launcher/os/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "common/node/helper_process.h"
#include "common/node/process_signals.h"
#include "launcher/os/clone_child.h"
#include "launcher/os/descriptors.h"
#include "launcher/os/process_state.h"

namespace ddp::launcher {
namespace {

/// A null-terminated array of pointers into `texts`, for exec. Built before the fork.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// A CPU mask of any size, as the kernel takes it. Empty: no binding.
class CpuMask {
 public:
  explicit CpuMask(const std::vector<int>& cpus) {
    if (cpus.empty()) return;
    const auto count = static_cast<std::size_t>(*std::ranges::max_element(cpus)) + 1;
    // A fixed cpu_set_t ends at 1024 CPUs (sched_setaffinity(2), "Handling systems with large
    // CPU affinity masks").
    words_.resize(CPU_ALLOC_SIZE(count) / sizeof(unsigned long));
    for (const int cpu : cpus) {
      const auto index = static_cast<std::size_t>(cpu);
      CPU_SET_S(index, bytes(), reinterpret_cast<cpu_set_t*>(words_.data()));
    }
  }
  [[nodiscard]] const cpu_set_t* set() const {
    return words_.empty() ? nullptr : reinterpret_cast<const cpu_set_t*>(words_.data());
  }
  [[nodiscard]] std::size_t bytes() const { return words_.size() * sizeof(unsigned long); }

 private:
  std::vector<unsigned long> words_;
};

/// The step that failed in the child, which writes it into our memory.
struct ChildFailure {
  char step = 0;  // kBind, kExec
  int error = 0;
};
constexpr char kBind = 'b';
constexpr char kExec = 'e';

struct ChildPlan {
  const char* executable;
  char* const* arguments;
  char* const* environment;
  int stdin_fd;
  bool takes_terminal;
  int stdout_fd;
  int stderr_fd;
  int inherited_fd;
  int lock_fd;
  const cpu_set_t* cpus;
  std::size_t cpus_bytes;
  int descriptors_end;  // above all of these
  pid_t parent;
  const sigset_t* mask;
  bool has_begun;
  ChildFailure failure;
};

// ---- the child: async-signal-safe calls only ---------------------------------------------------
// Sanitizers track the thread whose memory the child shares; they must not see that these functions
// never return.

void reset_signal(int signal) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
}

/// Resets two signals that the launcher itself ignores, and for a worker with a terminal also those
/// of a terminal, which a shell's `&` may have ignored. Others ignored at the launcher's start stay
/// ignored (nohup).
void reset_signals(bool takes_terminal) {
  for (const int signal : {SIGPIPE, SIGXFSZ})
    reset_signal(signal);
  if (!takes_terminal) return;
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGTTIN, SIGTTOU})
    reset_signal(signal);
}

[[noreturn, gnu::no_sanitize_address, gnu::no_sanitize_thread]] void report_failure(
    ChildPlan& plan, char step = kExec) {
  plan.failure = {step, errno};
  ::_exit(127);
}

[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] int exec_in_child(void* argument) {
  ChildPlan& plan = *static_cast<ChildPlan*>(argument);
  plan.has_begun = true;
  // A session of its own: one group to kill, and no terminal, so that Ctrl-C reaches the agent
  // alone. Children of the worker stay in the session even if they make groups of their own, so the
  // guard finds them.
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the death signal was set, so check once more.
  if (::getppid() != plan.parent) ::_exit(127);
  if (plan.cpus != nullptr && ::sched_setaffinity(0, plan.cpus_bytes, plan.cpus) != 0) {
    report_failure(plan, kBind);
  }
  if (keep_descriptors_below(plan.descriptors_end) < 0) report_failure(plan);
  if (plan.stdin_fd >= 0 && ::dup2(plan.stdin_fd, STDIN_FILENO) < 0) report_failure(plan);
  if (plan.takes_terminal && ::ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0) report_failure(plan);
  if (::dup2(plan.stdout_fd, STDOUT_FILENO) < 0) report_failure(plan);
  if (::dup2(plan.stderr_fd, STDERR_FILENO) < 0) report_failure(plan);
  // Also covers descriptors that our parent leaked to us. Older kernels lack the call, but our own
  // descriptors are CLOEXEC anyway.
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  // After close_range(2), which has marked these, too.
  if (plan.inherited_fd >= 0) ::fcntl(plan.inherited_fd, F_SETFD, 0);
  if (plan.lock_fd >= 0) ::fcntl(plan.lock_fd, F_SETFD, 0);
  reset_signals(plan.takes_terminal);
  ::pthread_sigmask(SIG_SETMASK, plan.mask, nullptr);
  ::execve(plan.executable, plan.arguments, plan.environment);
  report_failure(plan);
}

// ---- the parent --------------------------------------------------------------------------------

[[noreturn]] void throw_child_failure(const ProcessSpec& spec, const ChildFailure& failure) {
  const int error = failure.error;
  if (failure.step == kBind) {
    throw SystemError("cannot bind " + spec.label + " to its CPUs: sched_setaffinity: " +
                      std::strerror(error) + ". They have left our cpuset since the start.");
  }
  const int code = error == ENOENT ? exit_code::kNotFound : exit_code::kCannotExecute;
  std::string text = "cannot start " + spec.label + ": exec " + spec.executable + ": " +
                     std::strerror(error) + ".";
  if (error == ENOENT) text += " It, or the interpreter that its first line names, is not there.";
  if (error == ENOEXEC) text += " It is neither a program of this machine nor a script with #!.";
  throw SystemError(text, code);
}

[[noreturn]] void throw_fork_failure(const ProcessSpec& spec, int error) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NPROC, &limit);
  throw SystemError("cannot start " + spec.label + ": fork: " + std::strerror(error) +
                        ". The limit of processes is " + std::to_string(limit.rlim_cur) +
                        " (ulimit -u) or less (pids.max of the cgroup); raise it.",
                    exit_code::kCannotExecute);
}

constexpr std::chrono::milliseconds kTracerPause(50);  // between two checks of a traced process

ExitStatus to_status(const siginfo_t& info) {
  ExitStatus status;
  if (info.si_code == CLD_EXITED) {
    status.code = info.si_status;
  } else {
    status.signal = info.si_status;
    status.core = info.si_code == CLD_DUMPED;
  }
  return status;
}

}  // namespace

Process::Process(asio::io_context& io, const ProcessSpec& spec) : pidfd_(io) {
  std::vector<std::string> arguments = spec.arguments;
  std::vector<std::string> environment;
  for (const auto& [name, value] : spec.environment)
    environment.push_back(name + "=" + value);
  const std::vector<char*> argv = pointers_to(arguments);
  const std::vector<char*> envp = pointers_to(environment);
  const CpuMask mask(spec.cpus);
  const int highest = std::max({STDERR_FILENO,
                                spec.stdin_fd,
                                spec.stdout_fd,
                                spec.stderr_fd,
                                spec.inherited_fd,
                                spec.lock_fd});
  ChildPlan plan{spec.executable.c_str(),
                 argv.data(),
                 envp.data(),
                 spec.stdin_fd,
                 spec.takes_terminal,
                 spec.stdout_fd,
                 spec.stderr_fd,
                 spec.inherited_fd,
                 spec.lock_fd,
                 mask.set(),
                 mask.bytes(),
                 highest + 1,
                 ::getpid(),
                 nullptr,
                 false,
                 {}};
  int clone_error = 0;
  {
    const SignalsBlocked blocked;
    // The child shares our memory (CLONE_VM), so a handler in it would write into our variables. It
    // gets our mask back just before exec.
    plan.mask = &blocked.before();
    // Create the child in the cgroup: a later move would stop all forks of the machine for a
    // moment.
    pid_ = spec.cgroup_fd >= 0 ? clone_child(spec.cgroup_fd, exec_in_child, &plan) : -1;
    // A child created in a cgroup that was killed before dies before its first step.
    if (pid_ > 0 && !plan.has_begun) reap();
    is_in_cgroup_ = pid_ > 0;
    if (!is_in_cgroup_) pid_ = clone_child(-1, exec_in_child, &plan);
    clone_error = errno;
  }
  if (pid_ < 0) {
    pid_ = 0;
    throw_fork_failure(spec, clone_error);
  }
  // Known when clone returns: with CLONE_VFORK we wait until the child has executed or ended
  // (clone(2)).
  if (plan.failure.error != 0) {
    reap();
    throw_child_failure(spec, plan.failure);
  }
  watch(spec.label);
}

Process::Process(asio::io_context& io,
                 pid_t child,
                 bool is_in_cgroup,
                 const std::string& label,
                 std::shared_ptr<ForeignParent> parent)
    : pid_(child), is_in_cgroup_(is_in_cgroup), parent_(std::move(parent)), pidfd_(io) {
  watch(label);
}

void Process::watch(const std::string& label) {
  // Its pid cannot be reused before it is reaped, and only we may wait for it.
  const int pidfd = move_to_high_number(open_pidfd(pid_));
  if (pidfd < 0) take_back("pidfd_open", label, errno);
  boost::system::error_code cause;
  pidfd_.assign(pidfd, cause);
  if (cause) {
    ::close(pidfd);
    take_back("epoll_ctl", label, cause.value());
  }
}

/// Kills a process that runs but cannot be watched. The destructor does not run after a failed
/// constructor.
void Process::take_back(const char* call, const std::string& label, int error) {
  signal(SIGKILL);
  reap();
  throw SystemError("cannot watch " + system_message(call, label, error));
}

Process::~Process() {
  if (pid_ == 0) return;
  signal_group(SIGKILL);
  const std::chrono::seconds limit(pidfd_.is_open() ? 1 : 0);
  if (!parent_) {
    reap_within(pid_, limit);
    return;
  }
  if (pidfd_.is_open() && is_readable(pidfd_.native_handle(), limit)) parent_->reap(pid_);
}

asio::awaitable<std::optional<ExitStatus>> Process::wait() {
  const auto [error] = co_await pidfd_.async_wait(asio::posix::descriptor_base::wait_read, kResult);
  if (error) co_return std::nullopt;
  asio::steady_timer timer(pidfd_.get_executor());
  std::optional<ExitStatus> status;
  while (!(status = find_exit())) {
    // A debugger traces it and is told first (ptrace(2)). No event tells when the debugger has
    // taken it, so poll.
    timer.expires_after(kTracerPause);
    co_await timer.async_wait(kResult);
    if (!pidfd_.is_open()) co_return std::nullopt;
  }
  co_return status;
}

/// The zombie stays, so that its pid and its group's number are still its own when the group is
/// killed (waitid(2), WNOWAIT).
std::optional<ExitStatus> Process::find_exit() const {
  if (parent_) return parent_->find_exit(pid_);
  siginfo_t info{};
  check(::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | WNOHANG),
        "waitid",
        "worker " + std::to_string(pid_));
  return info.si_pid != 0 ? std::optional(to_status(info)) : std::nullopt;
}

void Process::unwatch() {
  boost::system::error_code ignored;
  pidfd_.close(ignored);
}

void Process::reap() {
  if (parent_) {
    parent_->reap(pid_);
  } else {
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = 0;
  boost::system::error_code ignored;
  pidfd_.close(ignored);
}

void Process::signal(int signal) {
  // A frozen process acts only on SIGKILL and SIGCONT; other signals wait until it goes on
  // (signal(7)).
  signal_group(signal);
  signal_group(SIGCONT);
}

/// For kill(2) 0 means our own group, and -1 every process of the machine.
void Process::signal_group(int signal) const {
  if (pid_ > 1 && (!parent_ || parent_->is_alive())) ::kill(-pid_, signal);
}

bool Process::forward(int signal) const {
  // Most such signals end a process without a handler, and a Python program may not expect ours.
  if (pid_ == 0 || !catches_signal(pid_, signal)) return false;
  return signal_process(pid_, signal);
}

std::uint64_t caught_signals(pid_t pid) {
  return read_signal_set("/proc/" + std::to_string(pid) + "/status", "SigCgt:");
}

bool catches_signal(pid_t pid, int signal) {
  return ((caught_signals(pid) >> (signal - 1)) & 1) != 0;
}

pid_t leave_core(std::chrono::milliseconds limit) {
  // Not fork(): it runs handlers of pthread_atfork(3), which may need a lock that this dying thread
  // holds. _Fork is async-signal-safe (glibc 2.34).
  const pid_t pid = ::_Fork();
  if (pid == 0) {
    // Close all descriptors, so that nothing that waits for their end waits for the core file.
    ::close_range(0, ~0U, 0);
    sigset_t abort;
    ::sigemptyset(&abort);
    ::sigaddset(&abort, SIGABRT);
    ::signal(SIGABRT, SIG_DFL);
    ::pthread_sigmask(SIG_UNBLOCK, &abort, nullptr);
    ::kill(::getpid(), SIGABRT);
    ::_exit(0);
  }
  const int pidfd = pid > 0 ? open_pidfd(pid) : -1;
  if (pidfd < 0) return 0;
  pollfd entry{pidfd, POLLIN, 0};
  ::poll(&entry, 1, static_cast<int>(limit.count()));
  int status = 0;
  const bool has_ended = ::waitpid(pid, &status, WNOHANG) == pid;
  return has_ended && WCOREDUMP(status) ? pid : 0;
}

pid_t ended_child() {
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | WNOHANG) != 0) return 0;
  return info.si_pid;
}

bool signal_pidfd(int pidfd, int signal) {
  return ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) == 0;
}

}  // namespace ddp::launcher
