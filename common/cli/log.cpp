#include "common/cli/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>

namespace ddp::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  constexpr spdlog::level::level_enum kLevels[] = {
      spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err};
  return kLevels[static_cast<std::size_t>(level)];
}

/// Writes to std::cerr; on a terminal with the colours of spdlog's own sink.
class CerrSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    std::string line(text.data(), text.size());
    const char* const color = message.level == spdlog::level::warn  ? "\x1b[33m\x1b[1m"
                              : message.level >= spdlog::level::err ? "\x1b[31m\x1b[1m"
                                                                    : "";
    if (*color != '\0' && message.color_range_end <= line.size()) {
      line.insert(message.color_range_end, "\x1b[0m");
      line.insert(message.color_range_start, color);
    }
    std::cerr << line;
  }
  void flush_() override { std::cerr << std::flush; }
};

}  // namespace

void open_by_cerr() {
  const auto logger = spdlog::default_logger();
  logger->sinks() = {std::make_shared<CerrSink>()};
  logger->set_pattern("%n: %^%v%$");
}

void open(const std::string& program, Level lowest) {
  auto logger = spdlog::stderr_color_mt(program);
  logger->set_pattern("%n: %^%v%$");
  logger->set_level(to_spdlog(lowest));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

Level parse_level(const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  if (lower == "debug") return Level::debug;
  if (lower == "warning" || lower == "warn") return Level::warning;
  if (lower == "error" || lower == "critical") return Level::error;
  return Level::info;
}

void debug(const std::string& text) {
  spdlog::debug("{}", text);
}
void info(const std::string& text) {
  spdlog::info("{}", text);
}
void warning(const std::string& text) {
  spdlog::warn("{}", text);
}
void error(const std::string& text) {
  spdlog::error("{}", text);
}

}  // namespace ddp::log
