// A color as users write it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ddp {

/// Reads "white", "black", or "#rrggbb" as in HTML. Returns red, green, blue. No value: the text is
/// none of these.
std::optional<std::array<std::uint8_t, 3>> parse_color(std::string_view text);

}  // namespace ddp
