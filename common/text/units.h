// Durations and sizes as users write them: "30s", "10min", "64MiB".
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp {

/// Reads a number with a unit: ms, s, min, h, d. "1.5s" is fine; a bare number is not, except 0.
/// No value: the text is not a duration, is negative or exceeds 10 years.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

/// Reads a size: B, KiB, MiB, GiB, TiB, and kB, MB, GB, TB as powers of 1000.
/// Units: bytes. No value: the text is not a size, is negative or does not fit.
std::optional<std::int64_t> parse_bytes(std::string_view text);

/// The shortest exact text: 90000 ms is "90s", 1500 ms is "1500ms".
std::string format_duration(std::chrono::milliseconds duration);

/// Rounded to a tenth, for people: "5.1 s".
std::string format_seconds(std::chrono::nanoseconds time);

/// The shortest text that reads back bit-equal, which Boost.JSON 1.81 does not promise: "0.1",
/// "1e+30", "nan".
std::string format_number(double number);

/// 9214 as "9,214".
std::string group_digits(std::int64_t number, std::string_view separator = ",");

/// "1.2 GiB", "14.0 KiB", "12 B".
std::string format_bytes(std::int64_t bytes);

}  // namespace ddp
