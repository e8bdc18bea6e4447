// Decodes the bytes of a JPEG, PNG or WebP file, told apart by their first bytes, not by a name.
// Trusts no header: it is checked before memory is allocated.
// The pixels are those of Pillow's Image.open(file).convert("RGB") (or "L"), which torchvision's
// ImageFolder uses: a transparent image only loses its alpha; colour profiles and the orientation
// in EXIF are ignored.
// Two exceptions: a JPEG with missing or damaged data is refused, where Pillow fills in grey; of 16
// bits the upper eight are taken, also where Pillow would clip (grey PNG). Promises: the same bytes
// give the same pixels, every time.
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

/// What the caller wants from a file.
struct DecodeRequest {
  int channels = 3;  // 1 or 3
  /// The smallest size that is still useful. A JPEG is then decoded at 1/2, 1/4 or 1/8 of its size
  /// as long as neither side gets below it: faster, and each pixel is an average already.
  std::optional<ImageSize> at_least;
  /// The wanted part, given the image's size in the file; `at_least` then applies to the part. No
  /// function: all of it. Other pixels of a JPEG are left out before they become colors. At full
  /// size the part has the same pixels as in the whole image; a smaller one begins and ends at
  /// whole pixels of its size, so it may show up to one of them more on each side. The whole file
  /// is read: damage outside of the part counts.
  std::function<Region(ImageSize)> part{};
  /// The size to which the result is then resized (resize.h); no value: it stays. A JPEG in color
  /// is resized row by row, without storing the pixels first.
  std::optional<ImageSize> size{};
};

/// Limits of a file; a larger one is refused.
struct DecodeLimits {
  std::int64_t pixels = 178'956'970;         // above them Pillow refuses, too
  std::size_t bytes = std::size_t{1} << 30;  // of the file
  /// A small file may claim many pixels, and decoding takes up to 11 bytes for each (a progressive
  /// JPEG of four components) before it finds that most are missing. This many are always allowed:
  /// a page at 600 dpi has 35 million. More need bytes: a photograph has at most ten pixels per
  /// byte.
  std::int64_t free_pixels = 36'000'000;
  std::int64_t pixels_per_byte = 64;
};

/// Errors: BadImage when a file with so many bytes and that size in its header must not be decoded.
void require_within(const DecodeLimits& limits, ImageSize size, std::size_t file_bytes);

/// The wanted part of an image of that size. Errors: std::logic_error when it is not inside of the
/// image.
Region wanted_part(const DecodeRequest& request, ImageSize file);

/// Reads the header, without decoding.
/// Errors: BadImage when it is not a JPEG, PNG or WebP, or its header is damaged or cut off.
ImageHeader read_image_header(std::span<const std::uint8_t> file);

/// Decodes a file. Returns the size in the file: that of `into`, unless it was decoded smaller, in
/// part, or to a size. Shapes: `into` is [request.channels, height, width]. Errors: BadImage; the
/// contents of `into` are then undefined. std::logic_error for channels other than 1 and 3, for a
/// part that is not inside of the image, and for a size without a pixel.
ImageSize decode_image(std::span<const std::uint8_t> file,
                       const DecodeRequest& request,
                       const DecodeLimits& limits,
                       Image& into);

}  // namespace ddp::worker
