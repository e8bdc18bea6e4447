// JPEG files; the door to libjpeg-turbo. Callers go through worker/image/decode.
#pragma once

#include <cstdint>
#include <span>

#include "worker/image/decode.h"

namespace ddp::worker {

/// Errors: BadImage.
ImageSize read_jpeg_size(std::span<const std::uint8_t> file);

/// Shapes: `into` is [wish.channels, height, width], maybe at a part of the file's size.
/// Precondition: the size was checked. Errors: BadImage.
void decode_jpeg(std::span<const std::uint8_t> file, const DecodeWish& wish, Image& into);

}  // namespace ddp::worker
