// The handler makes only async-signal-safe calls (signal-safety(7)): it lists threads by the raw
// system call, and does not demangle names, which the launcher or c++filt can do. Two calls are
// exceptions: backtrace(3), which is safe after a first call, and backtrace_symbols_fd(3), which
// takes the dynamic loader's lock. A thread that hangs while it holds that lock (in dlopen) prints
// no names; the launcher ends it anyway.
#include "worker/train/failure/stacks.h"

#include <dirent.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "common/error.h"

namespace ddp::worker {
namespace {

constexpr int kMaxFrames = 100;
constexpr int kThreads = 512;
constexpr int kThreadWaitMs = 50;  // for one thread to print

std::atomic<int> printed{0};  // how many threads have printed

struct LinuxDirent {  // getdents64(2)
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short size;
  unsigned char type;
  char name[1];
};

pid_t this_thread() {
  return static_cast<pid_t>(::syscall(SYS_gettid));
}

void put_raw(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void put_number(std::uint64_t number, int base = 10) {
  std::array<char, 24> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number, base).ptr;
  put_raw({text.data(), static_cast<std::size_t>(end - text.data())});
}

/// The interrupted instruction; null on architectures that are not covered.
void* interrupted_at(const void* context) {
#if defined(__x86_64__)
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  return reinterpret_cast<void*>(registers[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
  (void)context;
  return nullptr;
#endif
}

/// The launcher parses this format (launcher/plan/hang/stack_reader).
void print_own_stack(const void* context) {
  std::array<void*, kMaxFrames> frames;
  const int count = ::backtrace(frames.data(), kMaxFrames);
  const void* const from = interrupted_at(context);
  int first = 0;  // skips the handler's own frames
  while (first < count && frames[static_cast<std::size_t>(first)] != from)
    ++first;
  if (first == count) first = 0;
  std::array<char, 17> name{};
  ::prctl(PR_GET_NAME, name.data());
  put_raw("stack of thread ");
  put_number(static_cast<std::uint64_t>(this_thread()));
  put_raw(" (");
  put_raw(name.data());
  put_raw(") of process ");
  put_number(static_cast<std::uint64_t>(::getpid()));
  put_raw(":\n");
  ::backtrace_symbols_fd(frames.data() + first, count - first, STDERR_FILENO);
  printed.fetch_add(1);
}

/// Ids of this process's threads. Returns how many.
int list_threads(std::array<pid_t, kThreads>& threads) {
  const int fd = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int count = 0;
  alignas(LinuxDirent) std::array<char, 4096> buffer;
  long size = 0;
  while (fd >= 0 && (size = ::syscall(SYS_getdents64, fd, buffer.data(), buffer.size())) > 0) {
    for (long at = 0; at < size;) {
      LinuxDirent entry;
      std::memcpy(&entry, buffer.data() + at, sizeof entry);
      const char* const name = buffer.data() + at + offsetof(LinuxDirent, name);
      pid_t thread = 0;
      std::from_chars(name, name + ::strlen(name), thread);
      if (thread > 0 && count < kThreads) threads[static_cast<std::size_t>(count++)] = thread;
      at += entry.size;
    }
  }
  if (fd >= 0) ::close(fd);
  return count;
}

extern "C" void on_stack_signal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  print_own_stack(context);
  if (info->si_code != SI_TKILL) {  // from another process: forward it to the other threads in turn
    std::array<pid_t, kThreads> threads;
    const int count = list_threads(threads);
    for (int i = 0; i < count; ++i) {
      const pid_t thread = threads[static_cast<std::size_t>(i)];
      if (thread == this_thread()) continue;
      const int before = printed.load();
      if (::syscall(SYS_tgkill, ::getpid(), thread, signal) != 0) continue;
      for (int ms = 0; ms < kThreadWaitMs && printed.load() == before; ++ms)
        ::poll(nullptr, 0, 1);
    }
    put_raw("end of stacks\n");
  }
  errno = saved_errno;
}

extern "C" void on_crash(int signal, siginfo_t* info, void* context) {
  put_raw("SIG");
  put_raw(::sigabbrev_np(signal));
  const bool is_fault = info->si_code > 0 && signal != SIGABRT;  // else kill(2) or abort(3)
  if (is_fault) {
    put_raw(" at address 0x");
    put_number(reinterpret_cast<std::uintptr_t>(info->si_addr), 16);
  }
  put_raw("\n");
  print_own_stack(context);
  // The signal is delivered when this handler returns; SA_RESETHAND has then removed the handler.
  ::syscall(SYS_tgkill, ::getpid(), this_thread(), signal);
}

/// Call it outside of any handler: the first backtrace() loads a library.
void load_what_backtrace_needs() {
  std::array<void*, 1> first;
  ::backtrace(first.data(), 1);
}

}  // namespace

void print_stack_on_crash() {
  load_what_backtrace_needs();
  static std::array<char, 64 << 10>
      stack;  // for the handler, because a thread's own stack may be full
  const stack_t other{stack.data(), 0, stack.size()};
  check(::sigaltstack(&other, nullptr), "sigaltstack", "crashes");
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    struct sigaction action {};
    check(::sigaction(signal, nullptr, &action), "sigaction", "crashes");
    if ((action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_ONSTACK;
    check(::sigaction(signal, &action, nullptr), "sigaction", "crashes");
  }
}

void print_stacks_on_signal() {
  load_what_backtrace_needs();
  struct sigaction action {};
  action.sa_sigaction = on_stack_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  check(::sigaction(SIGUSR2, &action, nullptr), "sigaction", "SIGUSR2");
}

}  // namespace ddp::worker
