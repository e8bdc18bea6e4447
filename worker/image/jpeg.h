// Reads JPEG files; the wrapper of libjpeg-turbo. Call it through worker/image/decode.
#pragma once

#include <cstdint>
#include <span>

#include "worker/image/decode.h"

namespace ddp::worker {

class Resizer;

/// Errors: BadImage.
ImageSize read_jpeg_size(std::span<const std::uint8_t> file);

/// As decode_image(), for a file of this format. With a `resizer` it decodes in color, and to
/// request.size row by row. Without one it ignores request.size.
ImageSize decode_jpeg(std::span<const std::uint8_t> file,
                      const DecodeRequest& request,
                      const DecodeLimits& limits,
                      Resizer* resizer,
                      Image& into);

}  // namespace ddp::worker
