// Finds the word that a typo stands for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddp {

/// The closest of `candidates`, if it is close enough for a typo.
std::optional<std::string> did_you_mean(std::string_view word,
                                        std::span<const std::string_view> candidates);

}  // namespace ddp
