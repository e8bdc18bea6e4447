// Reads and writes PNG files; the wrapper of libpng. Read them through worker/image/decode.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/image/decode.h"

namespace ddp::worker {

/// Encodes the image as a PNG file, grey or RGB of 8 bits: the same bytes for the same image.
/// Errors: std::logic_error for an image without pixels.
std::vector<std::uint8_t> encode_png(const Image& image);

/// Errors: BadImage.
ImageSize read_png_size(std::span<const std::uint8_t> file);

/// As decode_image(), for a file of this format.
ImageSize decode_png(std::span<const std::uint8_t> file,
                     const DecodeRequest& request,
                     const DecodeLimits& limits,
                     Image& into);

}  // namespace ddp::worker
