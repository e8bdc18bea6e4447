// The workers' stdout and stderr: from pipes to whole, prefixed lines on the console, and raw to
// their log files. Here is what the streams of one node share: the console's rules, folding, the
// filtered files, and the timer for lines that wait. Of os/, log_mux and log_stream include
// file_writer and descriptors.
// Promises: lines of two ranks never mix; folded lines, counts of hidden ones and progress bars are
// shown in time, even if no byte comes any more. On a terminal the bar of the lowest rank shown
// there is drawn in place, below all lines; bars of other ranks are only in their log files. An
// unfinished line is drawn there, too; meanwhile those of other streams are printed as lines.
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
  ~LogMux();

  /// Shows all lines that wait, and stops the timer, which would keep the loop and so the agent
  /// alive. Call it when every stream is drained.
  void finish();

 private:
  friend class LogStream;

  void flush();
  void enter(LogStream& stream);
  void leave(LogStream& stream);
  void fold(const LogStream& stream, std::string_view text);
  void show_folded(FileWriter::Target console, const std::vector<LineFolder::Line>& lines);
  FileWriter::Target filtered(const LogFile& file);
  [[nodiscard]] bool is_bar_drawn(const LogStream& stream);
  void wake_at(Clock::time_point at);
  void show_due();

  FileWriter& writer_;
  const LogSpec& spec_;
  asio::steady_timer timer_;
  bool is_armed_ = false;
  Clock::time_point wakes_at_;
  std::shared_ptr<bool> alive_;  // owners: this, and a late handler of the timer
  std::array<std::optional<std::int64_t>, 2> limits_;  // lines per second, by console
  std::array<bool, 2> colors_{};
  std::array<bool, 2> is_terminal_{};
  std::array<bool, 2> in_place_{};         // bars are redrawn, not printed
  std::optional<int> bar_rank_;            // the rank whose bar is drawn; nothing: not known yet
  const LogStream* part_owner_ = nullptr;  // the stream whose part of a line is drawn
  std::array<LineFolder, 2> folders_;
  std::set<LogStream*> streams_;
  std::map<std::string, FileWriter::Target> filtered_;  // by path
  std::string piece_;                                   // buffer of one read
};

}  // namespace ddp::launcher
