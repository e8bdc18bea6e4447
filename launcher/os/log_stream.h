// One stream of one worker, from its pipe to its log file and, line by line, to the console.
// Promises: order is kept; lines longer than 64 KiB come in pieces; a last line without newline is
// shown and marked; on a terminal a part of a line that stands for 100 ms is shown, so that a
// prompt is seen before it is answered; memory is bounded. When an output is too slow, these give
// way, in this order: console copies of lines that are also in a file, if the console is behind or
// the limit of lines per second is reached; lines without a file, if the console has taken nothing
// for a second; the worker, whose pipe waits while the disk is behind. plan/output/console_gate
// decides; hidden lines are counted and reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/owned_dir.h"
#include "launcher/os/asio.h"
#include "launcher/os/file_writer.h"
#include "launcher/plan/hang/stack_reader.h"
#include "launcher/plan/output/console_gate.h"
#include "launcher/plan/output/line_splitter.h"
#include "launcher/plan/start/log_spec.h"
#include "launcher/plan/start/placement.h"
#include "launcher/plan/start/prefix.h"

namespace ddp::launcher {

class LogMux;

/// A file name in a directory; without a directory there is no file.
struct LogFile {
  std::shared_ptr<const OwnedDir> directory;  // owners: the streams of a round
  std::string name;
};

class LogStream {
 public:
  static constexpr std::size_t kTailLines = 20;
  static constexpr std::size_t kTailBytes = 2 << 10;  // of one line

  /// Which stream it is, and where it goes.
  struct Route {
    WorkerStream stream = WorkerStream::output;
    StreamPlan plan;
    LogFile log_file;
    LogFile filtered_file;
    // Whether the worker waits now for a line that is typed at the terminal.
    std::function<bool()> waits_for_answer;
  };

  /// Makes the pipe. `mux` outlives it. Errors: SystemError.
  LogStream(asio::io_context& io, LogMux& mux, const Route& route, const std::string& label);
  LogStream(const LogStream&) = delete;
  LogStream& operator=(const LogStream&) = delete;
  ~LogStream();

  /// Sets the prefix from the next line on.
  void set_prefix(const Prefix& prefix, const Placement& placement);

  /// The worker's end of the pipe. Call close_write_end() after the worker has started.
  [[nodiscard]] int write_end() const { return write_end_; }
  void close_write_end();

  /// A source: reads until the pipe ends or close_read_end() is called. Owns nothing; `this`
  /// outlives it.
  asio::awaitable<void> pump();
  void close_read_end();

  [[nodiscard]] bool is_drained() const { return drained_; }
  /// Bytes read so far.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Whether it reads nothing because too much is queued for the writer.
  [[nodiscard]] bool is_held_back() const { return held_back_; }
  [[nodiscard]] bool is_shown() const { return route_.plan.is_shown; }
  /// The log file, absolute if its directory is; empty: none.
  [[nodiscard]] std::filesystem::path file() const;
  /// Lines read so far; tail() has the last of them.
  [[nodiscard]] std::uint64_t lines() const { return lines_; }
  /// Stdout or stderr.
  [[nodiscard]] FileWriter::Target console() const { return console_; }
  [[nodiscard]] const Placement& placement() const { return placement_; }
  /// The prefix of a line that is shown now.
  [[nodiscard]] std::string prefix() const;
  /// The newest lines, oldest first, as a console would show them. The report quotes them.
  [[nodiscard]] std::vector<std::string> tail() const;

  /// From now on lines of a stack go to stacks() and the log file, not to the console or tail().
  void expect_stacks() { stacks_.emplace(); }
  /// Null: not expected.
  [[nodiscard]] const StackReader* stacks() const { return stacks_ ? &*stacks_ : nullptr; }

  /// Shows lines that have waited long enough, though no byte comes.
  void show_due(Clock::time_point now);

 private:
  [[nodiscard]] ConsoleGate::Queues queues() const;
  void take(std::string_view bytes);
  void take_line(std::string_view line);
  void show(std::string_view line);
  void copy(std::string_view line);
  void print_hidden();
  void flush();
  void wake();
  void fill_prefixes();
  [[nodiscard]] bool drop_bar_line(std::string_view line);
  void note_unfinished();
  void show_unfinished();
  void show_bar();
  void drop_bar();
  void show_part();
  void drop_part();
  [[nodiscard]] bool hold_back_nested(std::string_view line);
  void print_nested();
  void note_tail(std::string_view line);

  asio::posix::stream_descriptor pipe_;
  asio::steady_timer pause_;
  LogMux& mux_;
  FileWriter& writer_;
  Route route_;
  FileWriter::Target console_;
  std::optional<FileWriter::Target> file_;
  std::optional<FileWriter::Target> filtered_;
  Prefix prefix_;
  Prefix plain_;  // without colours
  Placement placement_;
  int write_end_ = -1;
  std::uint64_t bytes_ = 0;
  bool drained_ = false;
  bool held_back_ = false;
  LineSplitter splitter_;
  ConsoleGate gate_;
  std::vector<std::string> tail_;  // a ring when full
  std::size_t tail_next_ = 0;
  std::uint64_t lines_ = 0;
  std::optional<StackReader> stacks_;
  const bool in_place_;        // bars are drawn in place
  bool is_bar_drawn_ = false;  // this stream's
  // Since the newest piece of bytes began:
  bool has_other_text_ = false;    // a line that is not a bar has ended
  bool has_ended_line_ = false;    // any line has ended
  std::size_t printed_bytes_ = 0;  // of the unfinished line: they stay on the console
  // If bars are printed as lines: the newest line of nested bars, not shown yet.
  bool is_in_nested_ = false;
  std::string nested_;
  Clock::time_point nested_at_;  // when such a line was last shown
  // For the lines of one piece:
  std::string shown_prefix_;
  std::string plain_prefix_;  // without colours
  std::string block_;         // for the console
  std::string copies_;        // for the filtered file
};

}  // namespace ddp::launcher
