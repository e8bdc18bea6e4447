// The workers' stdout and stderr: from pipes to whole, prefixed lines on the console, and raw to
// their log files. It feeds os/file_writer, and that is all it knows of os/. Promises: a line is
// never mixed with another rank's; order is kept per stream; lines longer than 64 KiB come in
// pieces; a last line without newline is shown and marked; memory is bounded. What gives way, in
// this order: console copies of lines that are also in a file, when the console is behind or the
// limit of lines per second is reached; lines without a file, when the console has taken nothing
// for a second; and the worker, whose pipe waits while the disk is behind. What is left out is
// counted and said. A progress bar, which has no newline for long, is shown every five seconds.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/owned_dir.h"
#include "launcher/os/asio.h"
#include "launcher/os/file_writer.h"
#include "launcher/plan/job_spec.h"
#include "launcher/plan/line_folder.h"
#include "launcher/plan/line_splitter.h"
#include "launcher/plan/prefix.h"
#include "launcher/plan/stack_reader.h"

namespace ddp::launcher {

class LogStream;

/// A name in a directory; without one there is no file.
struct LogFile {
  std::shared_ptr<const OwnedDir> directory;  // owners: the streams of a round
  std::string name;
};

/// What the streams of one node share: the console's rules, folding, the filtered files.
class LogMux {
 public:
  /// All arguments outlive it.
  LogMux(asio::io_context& io, FileWriter& writer, const JobSpec& spec);
  LogMux(const LogMux&) = delete;
  LogMux& operator=(const LogMux&) = delete;
  ~LogMux();

  /// Shows what still waits, and looks no more: to be called when every stream is drained. A timer
  /// that is left would keep the loop, and with it the agent, alive.
  void finish();

 private:
  friend class LogStream;
  using Console = FileWriter::Target;  // stdout or stderr

  void flush();
  void enter(LogStream& stream);
  void leave(LogStream& stream);
  void fold(const LogStream& stream, std::string_view text);
  void show_folded(Console console, const std::vector<LineFolder::Line>& lines);
  FileWriter::Target filtered(const LogFile& file);
  void wake_within(Clock::duration pause);
  void look();

  FileWriter& writer_;
  const LogSpec& spec_;
  asio::steady_timer timer_;
  bool is_armed_ = false;
  Clock::time_point wakes_at_;
  std::shared_ptr<bool> alive_;  // owners: this, and a handler of the timer that came too late
  std::array<std::optional<std::int64_t>, 2> limits_;  // lines per second, by console
  std::array<bool, 2> colors_{};
  std::array<LineFolder, 2> folders_;
  std::set<LogStream*> streams_;
  std::map<std::string, FileWriter::Target> filtered_;  // by path
  std::string piece_;                                   // what one read takes
};

/// One stream of one worker.
class LogStream {
 public:
  static constexpr std::size_t kTailLines = 20;
  static constexpr std::size_t kTailBytes = 2 << 10;  // of one line

  /// What it is and where it goes; without a directory there is no file.
  struct Course {
    WorkerStream stream = WorkerStream::output;
    StreamPlan plan;
    LogFile log_file;
    LogFile filtered_file;
  };

  /// Makes the pipe. `mux` outlives it. Errors: SystemError.
  LogStream(asio::io_context& io, LogMux& mux, const Course& course, const std::string& label);
  LogStream(const LogStream&) = delete;
  LogStream& operator=(const LogStream&) = delete;
  ~LogStream();

  /// From the next line on.
  void set_prefix(const Prefix& prefix, const Placement& placement);

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
  [[nodiscard]] bool is_shown() const { return course_.plan.is_shown; }
  /// The newest lines, oldest first, as a console would show them: what the report quotes.
  [[nodiscard]] std::vector<std::string> tail() const;

  /// From now on lines that belong to a stack go to stacks() and to the log file, not to the
  /// console nor to tail().
  void expect_stacks() { stacks_.emplace(); }
  /// Null: not expected.
  [[nodiscard]] const StackReader* stacks() const { return stacks_ ? &*stacks_ : nullptr; }

 private:
  friend class LogMux;

  [[nodiscard]] bool is_logged() const;
  [[nodiscard]] bool is_console_behind() const;
  [[nodiscard]] bool is_console_stuck() const;
  [[nodiscard]] bool must_wait() const;
  void take(std::string_view bytes);
  void take_line(std::string_view line);
  void show(std::string_view line);
  void copy(std::string_view line);
  bool is_over_limit();
  void say_hidden();
  void show_bar(Clock::time_point now);
  void flush();
  void fill_prefixes();
  void note_tail(std::string_view line);

  asio::posix::stream_descriptor pipe_;
  asio::steady_timer pause_;
  LogMux& mux_;
  FileWriter& writer_;
  Course course_;
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
  std::vector<std::string> tail_;  // a ring, once it is full
  std::size_t tail_next_ = 0;
  std::optional<StackReader> stacks_;
  // For the lines of one piece:
  bool hides_ = false;
  std::string shown_prefix_;
  std::string plain_prefix_;      // without colours
  std::string block_;             // for the console
  std::string copies_;            // for the filtered file
  Clock::time_point second_;      // when the limit's second began
  std::int64_t shown_lines_ = 0;  // in it
  bool has_bar_ = false;          // a progress bar is in the line that is not whole yet
  Clock::time_point bar_at_;      // when it was last shown, or began
  std::uint64_t bar_bytes_ = 0;   // bytes() then
  std::size_t hidden_lines_ = 0;  // not shown on the console, and not yet said so
};

}  // namespace ddp::launcher
