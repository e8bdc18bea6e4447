// One row of pixels as decoders give it, into the planes of an image, and back. Four bytes a pixel
// and not three: then the channels come apart on many pixels at once, which every x86-64 does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "worker/image/image.h"

namespace ddp::worker {

/// `row` holds red, green, blue and a byte that is not used, for each pixel of row `y`. Into a grey
/// image goes Pillow's luma, ITU-R 601-2 in integers of 16 bits.
void split_row(const std::uint8_t* row, int y, Image& into);

/// `row` holds a grey byte for each pixel of row `y`.
void spread_row(const std::uint8_t* row, int y, Image& into);

/// Four rows of `count` bytes as pixels of four bytes. Writes 4 * `count` bytes.
void interleave(const std::array<const std::uint8_t*, 4>& rows,
                std::size_t count,
                std::uint8_t* into);

/// The reverse. Where the last row is null, its bytes are left out.
void separate(const std::uint8_t* pixels,
              std::size_t count,
              const std::array<std::uint8_t*, 4>& rows);

}  // namespace ddp::worker
