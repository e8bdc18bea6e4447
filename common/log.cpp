#include "common/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <memory>

namespace ddp::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

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
