// Decodes JPEG, PNG and WebP files; the first bytes, not the name, tell the format. Headers are not
// trusted: sizes are checked before memory is allocated.
// The pixels are those of Pillow's Image.open(file).convert("RGB") (or "L"), which torchvision's
// ImageFolder uses: a transparent image only loses its alpha, unless a background is asked for;
// colour profiles and the orientation in EXIF are ignored (data/sets/read_image looks at the
// latter). Two exceptions: a JPEG with missing or damaged data is refused, where Pillow fills in
// grey; 16-bit values keep their upper eight bits, even where Pillow would clip (grey PNG).
// Promises: the same bytes always give the same pixels.
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
  /// What is seen through transparent pixels, as if the image had been pasted onto this color with
  /// Pillow. No value: alpha is dropped.
  std::optional<Color> background{};
  /// The smallest size that the caller can use. A JPEG is then decoded at 1/2, 1/4 or 1/8 of its
  /// size if neither side gets below this: that is faster, and each pixel is an average.
  std::optional<ImageSize> at_least;
  /// Returns the wanted part, given the image's size in the file; `at_least` then applies to the
  /// part. No function: the whole image. For a JPEG this skips part of the decoding. At full size
  /// the part has the same pixels as in the whole image; a smaller one is rounded out to whole
  /// pixels of its size, so it may show up to one pixel more on each side. The whole file is still
  /// read, so damage outside of the part is an error.
  std::function<Region(ImageSize)> part{};
  /// The size to which the result is then resized (resize.h); no value: it is not resized. A JPEG
  /// in color is resized row by row, without storing all pixels.
  std::optional<ImageSize> size{};
};

/// Larger files are refused.
struct DecodeLimits {
  std::int64_t pixels = 178'956'970;         // Pillow's limit
  std::size_t bytes = std::size_t{1} << 30;  // of the file
  /// A small file may claim many pixels, and decoding takes up to 11 bytes for each (a progressive
  /// JPEG of four components) before it finds that most are missing. `free_pixels` are always
  /// allowed: a page at 600 dpi has 35 million. An image with more must have a byte for each
  /// `pixels_per_byte`: a photograph has at most ten pixels per byte.
  std::int64_t free_pixels = 36'000'000;
  std::int64_t pixels_per_byte = 64;
};

/// Errors: BadImage when a file of `file_bytes`, whose header claims `size`, must not be decoded.
void require_within(const DecodeLimits& limits, ImageSize size, std::size_t file_bytes);

/// The wanted part of an image of that size. Errors: std::logic_error when it is not inside of the
/// image.
Region wanted_part(const DecodeRequest& request, ImageSize file);

/// Reads the header, without decoding.
/// Errors: BadImage when it is not a JPEG, PNG or WebP, or its header is damaged or cut off.
ImageHeader read_image_header(std::span<const std::uint8_t> file);

/// Decodes a file. Returns the image's size in the file; `into` may be smaller, as `request` says.
/// Shapes: `into` is [request.channels, height, width]. Errors: BadImage; the contents of `into`
/// are then undefined. std::logic_error for channels other than 1 and 3, for a part that is not
/// inside of the image, and for an empty size.
ImageSize decode_image(std::span<const std::uint8_t> file,
                       const DecodeRequest& request,
                       const DecodeLimits& limits,
                       Image& into);

}  // namespace ddp::worker
