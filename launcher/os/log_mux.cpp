#include "launcher/os/log_mux.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "common/error.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;  // what one read takes
constexpr std::size_t kConsoleBytes =
    2 << 20;  // queued: above it, console copies of logged streams are left out
constexpr std::size_t kQueueBytes = 4 << 20;    // queued: above it, pipes wait
constexpr std::chrono::milliseconds kPause(1);  // between two looks at a full queue

}  // namespace

LogStream::LogStream(asio::io_context& io,
                     FileWriter& writer,
                     FileWriter::Target console,
                     std::string prefix,
                     const std::filesystem::path& log_file,
                     const std::string& label)
    : pipe_(io), pause_(io), writer_(writer), console_(console), prefix_(std::move(prefix)) {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC), "pipe2", "log pipe of " + label);
  write_end_ = ends[1];
  boost::system::error_code error;
  pipe_.assign(ends[0], error);
  if (error) ::close(ends[0]);
  // Our end only: the worker's writes block, as on a terminal.
  if (!error) pipe_.non_blocking(true, error);
  if (error) {
    close_write_end();  // no destructor runs for what was never made
    throw SystemError(system_message("epoll_ctl", "log pipe of " + label, error.value()));
  }
  if (!log_file.empty()) {
    file_ = writer_.open(log_file);
    has_file_ = true;
  }
}

LogStream::~LogStream() {
  close_write_end();
}

void LogStream::close_write_end() {
  if (write_end_ >= 0) ::close(write_end_);
  write_end_ = -1;
}

void LogStream::close_read_end() {
  boost::system::error_code ignored;
  pipe_.close(ignored);
  pause_.cancel();
}

asio::awaitable<void> LogStream::pump() {
  std::string piece(kPieceBytes, '\0');
  while (pipe_.is_open()) {
    while (writer_.queued_bytes() > kQueueBytes && pipe_.is_open()) {
      held_back_ = true;
      pause_.expires_after(kPause);
      co_await pause_.async_wait(kResult);
    }
    held_back_ = false;
    const auto [error, size] = co_await pipe_.async_read_some(asio::buffer(piece), kResult);
    if (error) break;  // end of file, or closed
    bytes_ += size;
    take(std::string_view(piece.data(), size));
  }
  std::string block;
  splitter_.finish([&](std::string_view line) {
    note_tail(line);
    block.append(prefix_).append(line).append("\n");
  });
  if (hidden_lines_ != 0) {
    block += prefix_ + "... " + std::to_string(hidden_lines_) + " lines are in the log file only\n";
  }
  writer_.write(console_, std::move(block));
  boost::system::error_code ignored;
  pipe_.close(ignored);
  drained_ = true;
}

void LogStream::take(std::string_view bytes) {
  if (has_file_) writer_.write(file_, std::string(bytes));
  const bool hides = has_file_ && writer_.queued_bytes() > kConsoleBytes;
  std::string block;
  if (!hides && hidden_lines_ != 0) {
    block += prefix_ + "... " + std::to_string(hidden_lines_) + " lines are in the log file only\n";
    hidden_lines_ = 0;
  }
  splitter_.feed(bytes, [&](std::string_view line) {
    note_tail(line);
    if (hides) {
      ++hidden_lines_;
    } else {
      block.append(prefix_).append(line).append("\n");
    }
  });
  writer_.write(console_, std::move(block));
}

void LogStream::note_tail(std::string_view line) {
  if (console_ != FileWriter::kStderr) return;
  if (tail_.size() == kTailLines) tail_.pop_front();
  tail_.emplace_back(line.substr(0, kTailBytes));
}

}  // namespace ddp::launcher
