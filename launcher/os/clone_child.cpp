#include "launcher/os/clone_child.h"

#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace ddp::launcher {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;  // untouched pages cost nothing
constexpr std::uint64_t kBorrowing = CLONE_VM | CLONE_VFORK | CLONE_FILES;

/// glibc has no function for clone3(2), and syscall(2) cannot be used: the child would return from
/// it on another stack than its caller's. Here the child goes into `body` at once. Returns the pid,
/// or the negative errno.
long call_clone3([[maybe_unused]] clone_args& arguments,
                 [[maybe_unused]] int (*body)(void*),
                 [[maybe_unused]] void* argument) {
#if defined(__x86_64__)
  long result = SYS_clone3;
  asm volatile(
      "syscall\n\t"
      "testq %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xorl %%ebp, %%ebp\n\t"
      "movq %[argument], %%rdi\n\t"
      "callq *%[body]\n\t"
      "ud2\n"
      "1:"
      : "+a"(result)
      : "D"(&arguments), "S"(sizeof arguments), [body] "r"(body), [argument] "r"(argument)
      : "rcx", "r11", "cc", "memory");
  return result;
#elif defined(__aarch64__)
  register long number asm("x8") = SYS_clone3;
  register long result asm("x0") = reinterpret_cast<long>(&arguments);
  register long size asm("x1") = sizeof arguments;
  asm volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, #0\n\t"
      "mov x0, %[argument]\n\t"
      "blr %[body]\n\t"
      "brk #1\n"
      "1:"
      : "+r"(result)
      : "r"(number), "r"(size), [body] "r"(body), [argument] "r"(argument)
      : "cc", "memory");
  return result;
#else
  return -ENOSYS;
#endif
}

struct Start {
  int (*body)(void*);
  void* argument;
};

/// Runs in the child, if the kernel has not cleared the handlers.
int clear_handlers_and_run(void* argument) {
  const Start start = *static_cast<Start*>(argument);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
  return start.body(start.argument);
}

}  // namespace

pid_t clone_child(int cgroup_fd, int (*body)(void*), void* argument) {
  // The child needs its own stack: on ours it would overwrite the frames to which we return. The
  // stack is free when clone3 returns, as the child has left it then (CLONE_VFORK).
  const auto stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  // Architectures require stack ends at multiples of 16.
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(stack.get()) + 15) / 16 * 16;
  clone_args arguments{};
  // No handler of ours may run in the child; ignored signals stay ignored (clone(2), Linux 5.5).
  arguments.flags = kBorrowing | CLONE_CLEAR_SIGHAND;
  arguments.exit_signal = SIGCHLD;
  arguments.stack = begin;
  arguments.stack_size = kStackBytes - 16;
  if (cgroup_fd >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(cgroup_fd);
  }
  const long pid = call_clone3(arguments, body, argument);
  if (pid >= 0) return static_cast<pid_t>(pid);
  errno = static_cast<int>(-pid);
  // The caller then starts the child without a cgroup.
  if (cgroup_fd >= 0) return -1;
  // Older kernels and containers refuse clone3(2); none refuses clone(2).
  Start start{body, argument};
  return ::clone(clear_handlers_and_run,
                 reinterpret_cast<void*>(begin + kStackBytes - 16),
                 static_cast<int>(kBorrowing) | SIGCHLD,
                 &start);
}

}  // namespace ddp::launcher
