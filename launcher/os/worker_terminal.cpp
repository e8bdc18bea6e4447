#include "launcher/os/worker_terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <utility>

#include "common/error.h"
#include "common/text/split.h"
#include "launcher/plan/output/console_text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kKept = 4096;     // bytes of what was shown
constexpr std::size_t kLastLines = 10;  // of it, at most
constexpr std::chrono::milliseconds kRoomPause(5);

int open_controller() {
  const int fd = check(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), "posix_openpt", "--debug");
  ::grantpt(fd);
  ::unlockpt(fd);
  return fd;
}

}  // namespace

WorkerTerminal::WorkerTerminal(asio::io_context& io) : our_end_(io, open_controller()) {
  std::array<char, 64> name{};
  ::ptsname_r(our_end_.native_handle(), name.data(), name.size());
  worker_end_ = Descriptor(
      check(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC), "open", std::string(name.data())));
}

void WorkerTerminal::set_settings(const termios& settings) {
  ::tcsetattr(worker_end(), TCSANOW, &settings);
}

void WorkerTerminal::set_editing(int erase, bool is_utf8) {
  termios settings{};
  if (::tcgetattr(worker_end(), &settings) != 0) return;
  settings.c_cc[VERASE] = static_cast<cc_t>(erase);
  settings.c_iflag = is_utf8 ? settings.c_iflag | IUTF8 : settings.c_iflag & ~tcflag_t{IUTF8};
  set_settings(settings);
}

void WorkerTerminal::resize(const TerminalSize& size) {
  winsize window{};
  window.ws_col = static_cast<unsigned short>(size.columns);
  window.ws_row = static_cast<unsigned short>(size.rows);
  if (our_end_.is_open()) ::ioctl(our_end_.native_handle(), TIOCSWINSZ, &window);
}

asio::awaitable<void> WorkerTerminal::pump(std::shared_ptr<WorkerTerminal> /*it stays*/,
                                           Show show) {
  std::array<char, 8192> buffer;
  while (our_end_.is_open()) {
    // EIO: no process has the other end open.
    const auto [error, size] = co_await our_end_.async_read_some(asio::buffer(buffer), kResult);
    if (error) break;
    const std::string_view piece(buffer.data(), size);
    shown_ += piece;
    if (shown_.size() > kKept) shown_.erase(0, shown_.size() - kKept);
    co_await show(std::string(piece));
  }
  close();
}

void WorkerTerminal::type(const std::shared_ptr<WorkerTerminal>& terminal, std::string_view typed) {
  if (!terminal->our_end_.is_open()) return;
  terminal->typed_ += typed.substr(0, kMostTyped - terminal->typed_.size());
  if (std::exchange(terminal->is_writing_, true)) return;
  asio::co_spawn(terminal->our_end_.get_executor(), terminal->write_typed(terminal), rethrow);
}

asio::awaitable<void> WorkerTerminal::write_typed(std::shared_ptr<WorkerTerminal> /*it stays*/) {
  while (!typed_.empty() && our_end_.is_open()) {
    const std::string piece = std::exchange(typed_, {});
    const auto [error, size] = co_await asio::async_write(our_end_, asio::buffer(piece), kResult);
    if (error) break;
  }
  is_writing_ = false;
}

asio::awaitable<void> WorkerTerminal::wait_for_room(std::shared_ptr<WorkerTerminal> /*it stays*/) {
  asio::steady_timer timer(our_end_.get_executor());
  while (our_end_.is_open() && typed_.size() > kMostTyped / 2) {
    timer.expires_after(kRoomPause);
    co_await timer.async_wait(kResult);
  }
}

void WorkerTerminal::close() {
  close_quietly(our_end_);
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
