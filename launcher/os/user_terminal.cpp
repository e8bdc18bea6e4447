#include "launcher/os/user_terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "common/error.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostQueued = 1 << 20;  // bytes to be shown
constexpr std::chrono::milliseconds kShowPause(5);

}  // namespace

UserTerminal::UserTerminal(asio::io_context& io, FileWriter& writer)
    : writer_(writer),
      keyboard_(io, check(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0), "fcntl", "stdin")),
      resized_(io, SIGWINCH) {
  flags_ = check(::fcntl(STDIN_FILENO, F_GETFL), "fcntl", "stdin");
  check(::tcgetattr(STDIN_FILENO, &settings_), "tcgetattr", "stdin");
  termios raw = settings_;
  ::cfmakeraw(&raw);
  check(::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw), "tcsetattr", "stdin");
  is_raw_ = true;
}

UserTerminal::~UserTerminal() {
  give_back();
}

void UserTerminal::listen(const std::shared_ptr<UserTerminal>& itself,
                          OnTyped on_typed,
                          OnResized on_resized) {
  const auto loop = itself->keyboard_.get_executor();
  asio::co_spawn(loop, itself->read_keyboard(itself, std::move(on_typed)), rethrow);
  asio::co_spawn(loop, itself->watch_size(itself, std::move(on_resized)), rethrow);
}

asio::awaitable<void> UserTerminal::show(std::shared_ptr<UserTerminal> /*it stays*/,
                                         std::string piece) {
  writer_.write(FileWriter::kStdout, std::move(piece));
  co_await wait_for_queue(kMostQueued, kNoDeadline);
}

/// Suspends: until at most `most` bytes wait to be shown, the deadline, or give_back().
asio::awaitable<void> UserTerminal::wait_for_queue(std::size_t most, Deadline deadline) {
  asio::steady_timer timer(keyboard_.get_executor());
  while (is_raw_ && writer_.queued_bytes(FileWriter::kStdout) > most && Clock::now() < deadline) {
    timer.expires_after(kShowPause);
    co_await timer.async_wait(kResult);
  }
}

asio::awaitable<void> UserTerminal::read_keyboard(std::shared_ptr<UserTerminal> /*it stays*/,
                                                  OnTyped on_typed) {
  std::array<char, 4096> buffer;
  while (is_raw_) {
    const auto [error] =
        co_await keyboard_.async_wait(asio::posix::descriptor_base::wait_read, kResult);
    const ssize_t got = error ? 0 : ::read(keyboard_.native_handle(), buffer.data(), buffer.size());
    const bool is_elsewhere =
        got < 0 && (errno == EAGAIN || errno == EINTR);  // others read it, too
    if (!is_raw_) break;
    if (is_elsewhere) continue;
    std::string typed(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    co_await on_typed(std::move(typed));
    if (got <= 0) break;
  }
}

asio::awaitable<void> UserTerminal::watch_size(std::shared_ptr<UserTerminal> /*it stays*/,
                                               OnResized on_resized) {
  while (is_raw_) {
    const auto [error, signal] = co_await resized_.async_wait(kResult);
    if (error) break;
    on_resized(size());
  }
}

asio::awaitable<void> UserTerminal::drain(std::shared_ptr<UserTerminal> /*it stays*/) {
  co_await wait_for_queue(0, Clock::now() + kDrainWait);
}

void UserTerminal::give_back() {
  // After what the kernel still has to show.
  if (std::exchange(is_raw_, false)) {
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &settings_);
    ::fcntl(STDIN_FILENO, F_SETFL, flags_);
  }
  boost::system::error_code ignored;
  close_quietly(keyboard_);
  resized_.cancel(ignored);
}

TerminalSize UserTerminal::size() {
  return terminal_size(STDOUT_FILENO).value_or(TerminalSize());
}

}  // namespace ddp::launcher
