// Converts rows of interleaved pixels, as decoders give them, to the planes of an image and back. A
// pixel has four bytes, not three, so that every x86-64 can separate the channels of many pixels at
// once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "worker/image/image.h"

namespace ddp::worker {

/// Writes row `y` of `into`. `row` has red, green, blue and an unused byte per pixel. A grey image
/// gets Pillow's luma, ITU-R 601-2 in 16-bit integers.
void split_row(const std::uint8_t* row, int y, Image& into);

/// Pastes `count` pixels of red, green, blue and alpha onto a background, in place. Rounds as
/// Pillow's Image.paste() with a mask.
void paste_onto(const Color& background, std::size_t count, std::uint8_t* row);

/// Writes row `y` of `into`. `row` has one grey byte per pixel.
void write_grey_row(const std::uint8_t* row, int y, Image& into);

/// Joins four rows of `count` bytes into pixels of four bytes. Writes 4 * `count` bytes.
void interleave(const std::array<const std::uint8_t*, 4>& rows,
                std::size_t count,
                std::uint8_t* into);

/// The inverse of interleave(). If the last row is null, its bytes are skipped.
void separate(const std::uint8_t* pixels,
              std::size_t count,
              const std::array<std::uint8_t*, 4>& rows);

}  // namespace ddp::worker
