#include "common/text/units.h"

#include <fmt/format.h>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "common/text/parse_whole.h"

namespace ddp {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 5> kTimeUnits{
    {{"ms", 1.0}, {"s", 1e3}, {"min", 6e4}, {"h", 3.6e6}, {"d", 8.64e7}}};

constexpr std::array<Unit, 9> kSizeUnits{{{"B", 1.0},
                                          {"KiB", 1024.0},
                                          {"MiB", 1048576.0},
                                          {"GiB", 1073741824.0},
                                          {"TiB", 1099511627776.0},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12}}};

constexpr double kTenYearsInMilliseconds = 10.0 * 366.0 * 8.64e7;

template <std::size_t N>
std::optional<double> parse_with_unit(std::string_view text, const std::array<Unit, N>& units) {
  std::string_view unit = text;
  const double number = take_number<double>(unit).value_or(-1);
  if (!std::isfinite(number) || std::signbit(number)) return {};
  while (!unit.empty() && unit.front() == ' ')
    unit.remove_prefix(1);
  if (unit.empty()) return number == 0 ? std::optional<double>(0) : std::nullopt;
  for (const Unit& known : units)
    if (known.name == unit) return number * known.factor;
  return {};
}

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const std::optional<double> value = parse_with_unit(text, kTimeUnits);
  if (!value || *value > kTenYearsInMilliseconds) return {};
  return std::chrono::milliseconds(std::llround(*value));
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  const std::optional<double> value = parse_with_unit(text, kSizeUnits);
  if (!value || *value >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) return {};
  return std::llround(*value);
}

std::string format_duration(std::chrono::milliseconds duration) {
  const std::int64_t count = duration.count();
  if (count % 3600000 == 0 && count != 0) return std::to_string(count / 3600000) + "h";
  if (count % 60000 == 0 && count != 0) return std::to_string(count / 60000) + "min";
  if (count % 1000 == 0) return std::to_string(count / 1000) + "s";
  return std::to_string(count) + "ms";
}

std::string format_seconds(std::chrono::nanoseconds time) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string format_number(double number) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end};
}

std::string group_digits(std::int64_t number, std::string_view separator) {
  std::string text = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t i = text.size(); i > first + 3; i -= 3)
    text.insert(i - 3, separator);
  return text;
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kNames.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kNames[unit]);
}

}  // namespace ddp
