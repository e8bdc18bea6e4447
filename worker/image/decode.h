// The bytes of a JPEG, PNG or WebP file as an image. They are told apart by their first bytes, not
// by a name. Believes nothing a header says: it is checked before anything is allocated.
// The pixels are those of Pillow's Image.open(file).convert("RGB") (or "L"), which torchvision's
// ImageFolder uses: a transparent image loses its alpha and nothing else, colour profiles and the
// orientation in EXIF are passed over.
// Two exceptions: a JPEG in which data is missing or damaged is refused, where Pillow fills in
// grey; of 16 bits the upper eight are taken, also where Pillow would clip (grey PNG). Promise: the
// same bytes give the same pixels, every time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "worker/image/image.h"

namespace ddp::worker {

enum class ImageFormat { jpeg, png, webp };

struct ImageHeader {
  ImageFormat format = ImageFormat::jpeg;
  ImageSize size;

  bool operator==(const ImageHeader&) const = default;
};

/// What is wanted of a file.
struct DecodeRequest {
  int channels = 3;  // 1 or 3
  /// The smallest size that is still of use. A JPEG is then decoded at 1/2, 1/4 or 1/8 of its size
  /// as long as neither side is below: faster, and each pixel is an average already.
  std::optional<ImageSize> at_least;
  /// Which part of it, given its size in the file; `at_least` is then that of the part. Nothing:
  /// all of it. A JPEG's other pixels are left out before they become colors: of its own size the
  /// part has the same pixels as in the whole image; a smaller one begins and ends at whole pixels
  /// of its size, so that it may show up to one of them more on each side. All of the file is read:
  /// damage outside of the part is damage.
  std::function<Region(ImageSize)> part{};
  /// The size that all of it then gets (resize.h), if that is said. Of a JPEG in color no pixel is
  /// stored before.
  std::optional<ImageSize> size{};
};

/// What a file may be; more is refused.
struct DecodeLimits {
  std::int64_t pixels = 178'956'970;         // above them Pillow refuses, too
  std::size_t bytes = std::size_t{1} << 30;  // of the file
  /// A small file may claim many pixels, and decoding takes up to 11 bytes for each (a progressive
  /// JPEG of four components), before it turns out that most are missing. So many are free: a page
  /// at 600 dpi has 35 million. More take bytes: a photograph has at most ten pixels for each.
  std::int64_t free_pixels = 36'000'000;
  std::int64_t pixels_per_byte = 64;
};

/// Errors: BadImage when a file of so many bytes whose header says that size is not to be decoded.
void require_within(const DecodeLimits& limits, ImageSize size, std::size_t file_bytes);

/// The part that is wanted of an image of that size. Errors: std::logic_error when it is not
/// inside.
Region wanted_part(const DecodeRequest& request, ImageSize file);

/// What the header says, without decoding.
/// Errors: BadImage when it is not a JPEG, PNG or WebP, or its header is damaged or cut off.
ImageHeader read_image_header(std::span<const std::uint8_t> file);

/// Decodes a whole file. Returns the size in the file: that of `into` unless it was decoded
/// smaller, in part, or to a size. Shapes: `into` is [request.channels, height, width]. Errors:
/// BadImage; `into` then holds anything. std::logic_error for channels other than 1 and 3, and for
/// a part that is not inside of the image, or a size without a pixel.
ImageSize decode_image(std::span<const std::uint8_t> file,
                       const DecodeRequest& request,
                       const DecodeLimits& limits,
                       Image& into);

}  // namespace ddp::worker
