// WebP files, lossy and lossless, not animated; the door to libwebp. Callers go through
// worker/image/decode.
#pragma once

#include <cstdint>
#include <span>

#include "worker/image/decode.h"

namespace ddp::worker {

/// Errors: BadImage.
ImageSize read_webp_size(std::span<const std::uint8_t> file);

/// Shapes: `into` is [channels, height, width]. Precondition: the size was checked.
/// Errors: BadImage.
void decode_webp(std::span<const std::uint8_t> file, int channels, Image& into);

}  // namespace ddp::worker
