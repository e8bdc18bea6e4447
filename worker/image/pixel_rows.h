// Converts rows of pixels, as decoders give them, to the planes of an image and back. Four bytes
// per pixel, not three, because every x86-64 can then separate the channels of many pixels at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "worker/image/image.h"

namespace ddp::worker {

/// `row` has red, green, blue and an unused byte for each pixel of row `y`. A grey image gets
/// Pillow's luma, ITU-R 601-2 in integers of 16 bits.
void split_row(const std::uint8_t* row, int y, Image& into);

/// `row` holds a grey byte for each pixel of row `y`.
void spread_row(const std::uint8_t* row, int y, Image& into);

/// Four rows of `count` bytes as pixels of four bytes. Writes 4 * `count` bytes.
void interleave(const std::array<const std::uint8_t*, 4>& rows,
                std::size_t count,
                std::uint8_t* into);

/// The inverse of interleave(). If the last row is null, its bytes are left out.
void separate(const std::uint8_t* pixels,
              std::size_t count,
              const std::array<std::uint8_t*, 4>& rows);

}  // namespace ddp::worker
