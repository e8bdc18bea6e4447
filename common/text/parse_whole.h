// Numbers as users and other programs write them.
#pragma once

#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace ddp {

/// Parses the whole text as a number from `least` to `most`: no blank, no '+', nothing after it. A
/// real number must be finite.
template <typename Number>
std::optional<Number> parse_whole(std::string_view text,
                                  Number least = std::numeric_limits<Number>::lowest(),
                                  Number most = std::numeric_limits<Number>::max()) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool is_whole = error == std::errc() && stop == end && number >= least && number <= most;
  return is_whole ? std::optional<Number>(number) : std::nullopt;
}

/// Takes a number off the front of the text. Nothing: none stands there, or it is too large.
template <typename Number>
std::optional<Number> take_number(std::string_view& text) {
  Number number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return number;
}

}  // namespace ddp
