// Reads WebP files, lossy and lossless, of animated ones the first frame; the wrapper of libwebp.
// Call it through worker/image/decode.
#pragma once

#include <cstdint>
#include <span>

#include "worker/image/decode.h"

namespace ddp::worker {

/// Errors: BadImage.
ImageSize read_webp_size(std::span<const std::uint8_t> file);

/// As decode_image(), for a file of this format.
ImageSize decode_webp(std::span<const std::uint8_t> file,
                      const DecodeRequest& request,
                      const DecodeLimits& limits,
                      Image& into);

}  // namespace ddp::worker
