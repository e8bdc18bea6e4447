// The agent's own lines once workers exist. They go through the writer's thread, in order with what
// the workers print: whoever watches workers never waits for a terminal. Before the first worker
// and after the job, common/log says what is to be said.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/log.h"
#include "launcher/os/asio.h"
#include "launcher/os/file_writer.h"
#include "launcher/plan/console_text.h"

namespace ddp::launcher {

class Console {
 public:
  /// `writer` outlives it. Lines below `lowest` are not shown.
  Console(FileWriter& writer, log::Level lowest, bool colors)
      : writer_(writer), lowest_(lowest), colors_(colors) {}

  void debug(const std::string& text) { say(log::Level::debug, text); }
  void info(const std::string& text) { say(log::Level::info, text); }
  void warning(const std::string& text) { say(log::Level::warning, text); }
  void error(const std::string& text) { say(log::Level::error, text); }
  /// How the job goes: on a terminal the last line, rewritten in place, else a line of its own each
  /// kLivePause. It may come from another node: only text is shown of it.
  void live(const std::string& line) {
    if (log::Level::info < lowest_) return;
    std::string text = line.empty() ? "" : head_of(log::Level::info);
    append_clean(text, line);
    if (writer_.has_terminal()) return writer_.show_footer(text);
    if (!live_at_) live_at_ = Clock::now();
    if (line.empty() || Clock::now() - *live_at_ < kLivePause) return;
    live_at_ = Clock::now();
    print(text + "\n");
  }
  static constexpr std::chrono::seconds kLivePause{30};

  /// As it is, whatever the level.
  void print(const std::string& text) { writer_.write(FileWriter::kStderr, text); }

 private:
  void say(log::Level level, const std::string& text) {
    if (level >= lowest_) print(head_of(level) + text + "\n");
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
  std::optional<Clock::time_point> live_at_;  // when its line was last shown, or first could be
};

}  // namespace ddp::launcher
