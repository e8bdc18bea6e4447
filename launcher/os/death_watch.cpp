#include "launcher/os/death_watch.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

#include "common/error.h"
#include "common/progress/alive_lock.h"
#include "launcher/os/all_signals_blocked.h"

namespace ddp::launcher {
namespace {

futex_waitv wait_for(const DeathWatch::Word& word, std::uint32_t value, std::uint32_t flags) {
  futex_waitv wait{};
  wait.val = value;
  wait.uaddr = reinterpret_cast<std::uintptr_t>(&word);
  wait.flags = FUTEX_32 | flags;
  return wait;
}

}  // namespace

DeathWatch::DeathWatch(asio::io_context& io, std::function<void()> callback)
    : callback_(std::move(callback)),
      bell_(io,
            check(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd", "early word of deaths")) {
  listen();
}

DeathWatch::~DeathWatch() {
  close();
}

void DeathWatch::watch(Word& word, pid_t pid) {
  std::uint32_t value = word.load(std::memory_order_relaxed);
  if (!is_held_by(value, pid) || has_failed_) return;
  {
    const std::lock_guard lock(mutex_);
    const bool is_watched =
        std::ranges::any_of(watched_, [&word](const Watched& one) { return one.word == &word; });
    if (is_watched || watched_.size() == kMostWords) return;
    // The kernel wakes nobody if this bit is not set.
    while (is_held_by(value, pid) && !word.compare_exchange_weak(value, value | FUTEX_WAITERS)) {
    }
    if (!is_held_by(value, pid)) return;
    watched_.push_back({&word, value | FUTEX_WAITERS});
  }
  if (!thread_.joinable()) start_thread();
  wake_thread();
}

void DeathWatch::forget(const Word& word) {
  const std::lock_guard lock(mutex_);
  std::erase_if(watched_, [&word](const Watched& one) { return one.word == &word; });
}

void DeathWatch::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  wake_thread();
  if (thread_.joinable()) thread_.join();
  close_quietly(bell_);
}

void DeathWatch::start_thread() {
  const AllSignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    has_failed_ = true;  // the limit of processes: the kernel's own word has to do
  }
}

void DeathWatch::listen() {
  bell_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this](const boost::system::error_code& error) {
                     if (error) return;
                     std::uint64_t times = 0;
                     const ssize_t size = ::read(bell_.native_handle(), &times, sizeof times);
                     if (size == sizeof times) callback_();
                     listen();
                   });
}

/// The thread: waits until a word changes.
void DeathWatch::run() {
  const int bell = bell_.native_handle();
  std::vector<futex_waitv> waits;
  while (true) {
    const std::uint32_t changes = changes_.load();
    waits.assign(1, wait_for(changes_, changes, FUTEX_PRIVATE_FLAG));
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_) return;
      if (drop_changed()) {
        constexpr std::uint64_t kOnce = 1;
        [[maybe_unused]] const ssize_t size = ::write(bell, &kOnce, sizeof kOnce);
      }
      for (const Watched& one : watched_)
        waits.push_back(wait_for(*one.word, one.value, 0));
    }
    const long result =
        ::syscall(SYS_futex_waitv, waits.data(), waits.size(), 0, nullptr, CLOCK_MONOTONIC);
    // EFAULT: the page of a forgotten word is gone. Anything else: the call is not there, or
    // refused.
    if (result < 0 && errno != EAGAIN && errno != EINTR && errno != EFAULT) return;
  }
}

/// Whether a word has changed since the last call; such words are not watched any more.
bool DeathWatch::drop_changed() {
  return std::erase_if(watched_, [](const Watched& one) { return one.word->load() != one.value; }) >
         0;
}

void DeathWatch::wake_thread() {
  changes_.fetch_add(1);
  ::syscall(SYS_futex, &changes_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ddp::launcher
