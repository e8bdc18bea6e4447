// One stream of one worker, from its pipe to its log file and, line by line, to the console.
// Promises: order is kept; lines longer than 64 KiB come in pieces; a last line without newline is
// shown and marked; memory is bounded. What gives way, in this order: console copies of lines that
// are also in a file, when the console is behind or the limit of lines per second is reached; lines
// without a file, when the console has taken nothing for a second; and the worker, whose pipe waits
// while the disk is behind. plan/output/console_gate decides which; what is left out is counted and
// said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
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

/// A name in a directory; without one there is no file.
struct LogFile {
  std::shared_ptr<const OwnedDir> directory;  // owners: the streams of a round
  std::string name;
};

class LogStream {
 public:
  static constexpr std::size_t kTailLines = 20;
  static constexpr std::size_t kTailBytes = 2 << 10;  // of one line

  /// What it is and where it goes; without a directory there is no file.
  struct Route {
    WorkerStream stream = WorkerStream::output;
    StreamPlan plan;
    LogFile log_file;
    LogFile filtered_file;
  };

  /// Makes the pipe. `mux` outlives it. Errors: SystemError.
  LogStream(asio::io_context& io, LogMux& mux, const Route& route, const std::string& label);
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
  [[nodiscard]] bool is_shown() const { return route_.plan.is_shown; }
  /// Where it is logged, absolute where its directory is; empty: nowhere.
  [[nodiscard]] std::filesystem::path file() const;
  /// How many lines have come so far, of which tail() is the end.
  [[nodiscard]] std::uint64_t lines() const { return lines_; }
  /// Stdout or stderr.
  [[nodiscard]] FileWriter::Target console() const { return console_; }
  [[nodiscard]] const Placement& placement() const { return placement_; }
  /// What stands before a line that is shown now.
  [[nodiscard]] std::string prefix() const;
  /// The newest lines, oldest first, as a console would show them: what the report quotes.
  [[nodiscard]] std::vector<std::string> tail() const;

  /// From now on lines that belong to a stack go to stacks() and to the log file, not to the
  /// console nor to tail().
  void expect_stacks() { stacks_.emplace(); }
  /// Null: not expected.
  [[nodiscard]] const StackReader* stacks() const { return stacks_ ? &*stacks_ : nullptr; }

  /// Shows what has waited long enough, although nothing comes.
  void probe(Clock::time_point now);

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
  [[nodiscard]] bool folds_away(std::string_view line);
  void note_bar();
  void show_bar();
  void drop_bar();
  [[nodiscard]] bool keeps_nested(std::string_view line);
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
  std::vector<std::string> tail_;  // a ring, once it is full
  std::size_t tail_next_ = 0;
  std::uint64_t lines_ = 0;
  std::optional<StackReader> stacks_;
  const bool in_place_;        // a bar is drawn in one place
  bool is_bar_drawn_ = false;  // ours
  bool has_spoken_ = false;    // a line that is not a bar's, since the piece began
  // Where bars are lines: the newest of bars below each other that is not shown yet.
  bool is_in_nested_ = false;
  std::string nested_;
  Clock::time_point nested_at_;  // when one was shown
  // For the lines of one piece:
  std::string shown_prefix_;
  std::string plain_prefix_;  // without colours
  std::string block_;         // for the console
  std::string copies_;        // for the filtered file
};

}  // namespace ddp::launcher
