// Prints the agent's own lines while workers exist. They go through the writer's thread, in order
// with the workers' output, so the loop never waits for a terminal. Before the first worker and
// after the job, common/cli/log prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/cli/log.h"
#include "common/progress/live_line.h"
#include "launcher/os/asio.h"
#include "launcher/os/file_writer.h"
#include "launcher/plan/output/console_text.h"
#include "launcher/plan/start/log_spec.h"

namespace ddp::launcher {

class Console {
 public:
  /// `writer` outlives it. Lines below `lowest` are not shown.
  Console(FileWriter& writer,
          log::Level lowest,
          bool colors,
          ProgressMode progress = ProgressMode::automatic)
      : writer_(writer), lowest_(lowest), colors_(colors), progress_(progress) {}

  [[nodiscard]] bool shows(log::Level level) const { return level >= lowest_; }
  void print(log::Level level, const std::string& text) {
    if (shows(level)) print(head_of(level) + text + "\n");
  }
  void debug(const std::string& text) { print(log::Level::debug, text); }
  void info(const std::string& text) { print(log::Level::info, text); }
  void warning(const std::string& text) { print(log::Level::warning, text); }
  void error(const std::string& text) { print(log::Level::error, text); }
  /// Shows the job's progress: on a terminal as the last line, rewritten in place, else as a new
  /// line each LiveLine::kPlainPause. Control characters are removed, as the parts may come from
  /// another node. No parts: there is nothing to show, as while a round is being ended.
  void live(const std::vector<LinePart>& parts) {
    if (!has_live_line()) return;
    if (progress_ == ProgressMode::automatic && writer_.has_terminal()) return show_in_place(parts);
    if (!live_at_) live_at_ = Clock::now();
    if (parts.empty() || Clock::now() - *live_at_ < LiveLine::kPlainPause) return;
    live_at_ = Clock::now();
    std::string text = head_of(log::Level::info);
    append_clean(text, join(parts));
    print(text + "\n");
  }
  static constexpr std::size_t kNameFrom =
      80;  // columns; narrower terminals show the live line without our name

  [[nodiscard]] bool has_live_line() const {
    return progress_ != ProgressMode::off && log::Level::info >= lowest_;
  }
  [[nodiscard]] bool has_terminal() const { return writer_.has_terminal(); }

  /// Prints `text` as it is, whatever the level.
  void print(const std::string& text) {
    writer_.write(FileWriter::kStderr, has_returns_ ? with_returns(text) : text);
  }

  /// From now on a line ends with "\r\n", as a raw terminal needs it (--debug).
  void end_lines_by_return() { has_returns_ = true; }

 private:
  void show_in_place(const std::vector<LinePart>& parts) {
    if (parts.empty()) return writer_.show_footer("");
    const std::size_t width = writer_.footer_width();
    std::string text = width + 1 >= kNameFrom ? head_of(log::Level::info) : "";
    append_clean(text, fit(parts, width - text.size()));
    writer_.show_footer(text);
  }

  /// Errors are red, warnings yellow.
  [[nodiscard]] std::string head_of(log::Level level) const {
    const std::string head = "ddp-launch: ";
    if (!colors_ || level < log::Level::warning) return head;
    return (level == log::Level::error ? "\x1b[31m" : "\x1b[33m") + head + "\x1b[0m";
  }

  FileWriter& writer_;
  log::Level lowest_;
  bool colors_;
  bool has_returns_ = false;
  ProgressMode progress_;
  std::optional<Clock::time_point> live_at_;  // live line last shown, or first possible
};

}  // namespace ddp::launcher
