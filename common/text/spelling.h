// Finds the word that a typo was meant to be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddp {

/// The closest of `candidates` when it is close enough to be a slip of the fingers.
std::optional<std::string> did_you_mean(std::string_view word,
                                        std::span<const std::string_view> candidates);

}  // namespace ddp
