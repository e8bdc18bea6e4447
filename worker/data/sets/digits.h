// The built-in data set: digits that look handwritten, drawn at run time, so that a first run needs
// no file and no network.
// Promises: image i of a split depends on (seed, split, i) alone, not on the number of threads,
// images or the machine's standard library; training and test images never share a random number.
#pragma once

#include <cstdint>
#include <span>

#include "worker/data/sets/image_set.h"

namespace ddp::worker {

enum class DigitsSplit : std::uint64_t { train = 1, test = 2 };

inline constexpr std::int64_t kDigitSide = 28;

/// Draws one image and returns its label.
/// Shapes: `pixels` is [28, 28], row-major, 0 = background.
std::uint8_t draw_digit(std::uint64_t seed,
                        DigitsSplit split,
                        std::int64_t index,
                        std::span<std::uint8_t, kDigitSide * kDigitSide> pixels);

/// Draws the first `count` images of a split.
/// Errors: UsageError when count is below 1.
ImageSet draw_digits(std::uint64_t seed, DigitsSplit split, std::int64_t count);

}  // namespace ddp::worker
