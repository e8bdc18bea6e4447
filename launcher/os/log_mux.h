// The workers' stdout and stderr: from pipes to whole, prefixed lines on the console, and raw to
// their log files. What the streams of one node share is here: the console's rules, folding, the
// filtered files, and the one timer that looks at what waits. It feeds os/file_writer, and that is
// all that it and os/log_stream know of os/. Promises: a line is never mixed with another rank's;
// what is folded, hidden or a progress bar is shown in time although no byte comes any more. On a
// terminal the bar of the lowest rank that is shown there is drawn in one place, below all lines,
// and those of the other ranks are in their log files alone.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/os/asio.h"
#include "launcher/os/file_writer.h"
#include "launcher/os/log_stream.h"
#include "launcher/plan/output/line_folder.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

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
  [[nodiscard]] bool is_bar_drawn(const LogStream& stream);
  void wake_at(Clock::time_point at);
  void probe();

  FileWriter& writer_;
  const LogSpec& spec_;
  asio::steady_timer timer_;
  bool is_armed_ = false;
  Clock::time_point wakes_at_;
  std::shared_ptr<bool> alive_;  // owners: this, and a handler of the timer that came too late
  std::array<std::optional<std::int64_t>, 2> limits_;  // lines per second, by console
  std::array<bool, 2> colors_{};
  std::array<bool, 2> in_place_{};  // bars are drawn, not printed
  std::optional<int> bar_rank_;     // whose is drawn; nothing: to be found out
  std::array<LineFolder, 2> folders_;
  std::set<LogStream*> streams_;
  std::map<std::string, FileWriter::Target> filtered_;  // by path
  std::string piece_;                                   // what one read takes
};

}  // namespace ddp::launcher
