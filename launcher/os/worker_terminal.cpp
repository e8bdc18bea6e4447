#include "launcher/os/worker_terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <csignal>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/text/split.h"
#include "launcher/plan/output/console_text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kKept = 4096;     // bytes of what was shown
constexpr std::size_t kLastLines = 10;  // of it, at most
constexpr std::size_t kMostQueued = 1 << 20;
constexpr std::chrono::milliseconds kShowPause(5);

int open_controller() {
  const int fd = check(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), "posix_openpt", "--debug");
  ::grantpt(fd);
  ::unlockpt(fd);
  return fd;
}

}  // namespace

WorkerTerminal::WorkerTerminal(asio::io_context& io, FileWriter& writer)
    : writer_(writer),
      our_end_(io, open_controller()),
      keyboard_(io, check(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0), "fcntl", "stdin")),
      resized_(io, SIGWINCH) {
  std::array<char, 64> name{};
  ::ptsname_r(our_end_.native_handle(), name.data(), name.size());
  worker_end_ = Descriptor(
      check(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC), "open", std::string(name.data())));
  check(::tcgetattr(STDIN_FILENO, &settings_), "tcgetattr", "stdin");
  ::tcsetattr(worker_end(), TCSANOW, &settings_);
  copy_size();
  termios raw = settings_;
  ::cfmakeraw(&raw);
  check(::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw), "tcsetattr", "stdin");
  is_raw_ = true;
}

WorkerTerminal::~WorkerTerminal() {
  give_back();
}

asio::awaitable<void> WorkerTerminal::show() {
  std::array<char, 8192> buffer;
  asio::steady_timer timer(our_end_.get_executor());
  while (true) {
    // EIO: no process has the other end open.
    const auto [error, size] = co_await our_end_.async_read_some(asio::buffer(buffer), kResult);
    if (error) break;
    const std::string_view piece(buffer.data(), size);
    shown_ += piece;
    if (shown_.size() > kKept) shown_.erase(0, shown_.size() - kKept);
    writer_.write(FileWriter::kStdout, std::string(piece));
    while (writer_.queued_bytes(FileWriter::kStdout) > kMostQueued && our_end_.is_open()) {
      timer.expires_after(kShowPause);
      co_await timer.async_wait(kResult);
    }
  }
  give_back();
  is_over_ = true;
}

asio::awaitable<void> WorkerTerminal::pass_on_typing(std::shared_ptr<WorkerTerminal> /*it stays*/) {
  std::array<char, 1024> buffer;
  while (our_end_.is_open()) {
    // Wait, then read: asio's own read would make the terminal non-blocking for all who share it.
    const auto [error] =
        co_await keyboard_.async_wait(asio::posix::descriptor_base::wait_read, kResult);
    const ssize_t got = error ? 0 : ::read(keyboard_.native_handle(), buffer.data(), buffer.size());
    if (got <= 0) break;
    const asio::const_buffer typed(buffer.data(), static_cast<std::size_t>(got));
    const auto [failure, size] = co_await asio::async_write(our_end_, typed, kResult);
    if (failure) break;
  }
}

asio::awaitable<void> WorkerTerminal::resize(std::shared_ptr<WorkerTerminal> /*it stays*/) {
  while (our_end_.is_open()) {
    const auto [error, signal] = co_await resized_.async_wait(kResult);
    if (error) break;
    copy_size();
  }
}

/// The kernel tells the worker by SIGWINCH.
void WorkerTerminal::copy_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
    ::ioctl(our_end_.native_handle(), TIOCSWINSZ, &size);
}

void WorkerTerminal::give_back() {
  // Drained: what was printed was meant for a raw terminal.
  if (std::exchange(is_raw_, false)) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &settings_);
  boost::system::error_code ignored;
  close_quietly(our_end_);
  close_quietly(keyboard_);
  resized_.cancel(ignored);
}

std::vector<std::string> WorkerTerminal::last_lines() const {
  std::vector<std::string> lines;
  for (const std::string_view line : split(shown_, '\n')) {
    std::string text = plain_line(trim(line), kKept);
    if (!text.empty()) lines.push_back(std::move(text));
  }
  lines.erase(lines.begin(),
              lines.end() - static_cast<std::ptrdiff_t>(std::min(lines.size(), kLastLines)));
  return lines;
}

}  // namespace ddp::launcher
