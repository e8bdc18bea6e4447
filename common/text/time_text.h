// Times as text. `format` is that of strftime(3); the text has at most 63 bytes.
#pragma once

#include <array>
#include <ctime>
#include <string>

namespace ddp {

inline std::string format_time(const std::tm& parts, const char* format) {
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

inline std::string utc_text(std::time_t time, const char* format) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  return format_time(parts, format);
}

inline std::string local_text(std::time_t time, const char* format) {
  std::tm parts{};
  ::localtime_r(&time, &parts);
  return format_time(parts, format);
}

}  // namespace ddp
