// One row of pixels as decoders give it, into the planes of an image. Four bytes a pixel and not
// three: then the channels come apart on many pixels at once, which every x86-64 does.
#pragma once

#include <cstdint>

#include "worker/image/image.h"

namespace ddp::worker {

/// `row` holds red, green, blue and a byte that is not used, for each pixel of row `y`. Into a grey
/// image goes Pillow's luma, ITU-R 601-2 in integers of 16 bits.
void split_row(const std::uint8_t* row, int y, Image& into);

/// `row` holds a grey byte for each pixel of row `y`.
void spread_row(const std::uint8_t* row, int y, Image& into);

}  // namespace ddp::worker
