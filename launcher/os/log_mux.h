// The workers' stdout and stderr: from pipes to whole, prefixed lines on the console, and raw to
// their log files. It feeds os/file_writer, and that is all it knows of os/. Promises: a line is
// never mixed with another rank's; order is kept per stream; lines longer than 64 KiB come in
// pieces; a last line without newline is shown and marked; memory is bounded: when the writer falls
// behind, console copies that are also in a file go first, then the pipe waits, and with it the
// worker.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/os/asio.h"
#include "launcher/os/file_writer.h"
#include "launcher/plan/line_splitter.h"

namespace ddp::launcher {

/// One stream of one worker.
class LogStream {
 public:
  static constexpr std::size_t kTailLines = 20;
  static constexpr std::size_t kTailBytes = 2 << 10;  // of one line

  /// Makes the pipe. `log_file` is empty for none. Errors: SystemError.
  LogStream(asio::io_context& io,
            FileWriter& writer,
            FileWriter::Target console,
            std::string prefix,
            const std::filesystem::path& log_file,
            const std::string& label);
  LogStream(const LogStream&) = delete;
  LogStream& operator=(const LogStream&) = delete;
  ~LogStream();

  /// The end for the worker; close_write_end() once it has been started.
  [[nodiscard]] int write_end() const { return write_end_; }
  void close_write_end();

  /// A source: reads until the pipe ends or close_read_end() is called. Owns nothing; `this`
  /// outlives it.
  asio::awaitable<void> pump();
  void close_read_end();

  [[nodiscard]] bool is_drained() const { return drained_; }
  /// What has come through it so far.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// True while it reads nothing because too much is queued for the writer.
  [[nodiscard]] bool is_held_back() const { return held_back_; }
  /// The newest lines of a stream for stderr, oldest first: what the report quotes.
  [[nodiscard]] const std::deque<std::string>& tail() const { return tail_; }

 private:
  void take(std::string_view bytes);
  void note_tail(std::string_view line);

  asio::posix::stream_descriptor pipe_;
  asio::steady_timer pause_;
  FileWriter& writer_;
  FileWriter::Target console_;
  FileWriter::Target file_ = 0;
  bool has_file_ = false;
  std::string prefix_;
  int write_end_ = -1;
  std::uint64_t bytes_ = 0;
  bool drained_ = false;
  bool held_back_ = false;
  LineSplitter splitter_;
  std::deque<std::string> tail_;
  std::size_t hidden_lines_ = 0;  // not shown on the console, in the file
};

}  // namespace ddp::launcher
