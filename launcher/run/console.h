// The agent's own lines once workers exist. They go through the writer's thread, in order with what
// the workers print: whoever watches workers never waits for a terminal. Before the first worker
// and after the job, common/log says what is to be said.
#pragma once

#include <string>

#include "common/log.h"
#include "launcher/os/file_writer.h"

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
};

}  // namespace ddp::launcher
