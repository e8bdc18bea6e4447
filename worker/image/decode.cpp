#include "worker/image/decode.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "worker/image/geometry.h"
#include "worker/image/jpeg.h"
#include "worker/image/png.h"
#include "worker/image/resize.h"
#include "worker/image/webp.h"

namespace ddp::worker {
namespace {

struct Magic {
  std::string_view head;
  std::string_view name;
};
// Formats that other programs read, for the message.
constexpr std::array<Magic, 9> kNotRead{{{"GIF8", "a GIF"},
                                         {"BM", "a BMP"},
                                         {{"II*\0", 4}, "a TIFF"},
                                         {{"MM\0*", 4}, "a TIFF"},
                                         {"P5", "a PGM"},
                                         {"P6", "a PPM"},
                                         {{"\0\0\0\x0cjP  ", 8}, "a JPEG 2000"},
                                         {"\xff\x0a", "a JPEG XL"},
                                         {"<", "a text (HTML or SVG?)"}}};

ImageFormat format_of(std::span<const std::uint8_t> file) {
  if (file.empty()) throw BadImage("it is empty");
  const std::string_view head(reinterpret_cast<const char*>(file.data()), file.size());
  if (head.starts_with("\xff\xd8\xff")) return ImageFormat::jpeg;
  if (head.starts_with("\x89PNG\r\n\x1a\n")) return ImageFormat::png;
  if (head.starts_with("RIFF") && head.size() >= 12 && head.substr(8, 4) == "WEBP")
    return ImageFormat::webp;
  for (const Magic& magic : kNotRead) {
    if (head.starts_with(magic.head))
      throw BadImage("it is " + std::string(magic.name) + ", and not a JPEG, PNG or WebP");
  }
  throw BadImage("it is not a JPEG, PNG or WebP");
}

/// Decodes a file of a format that is always decoded as a whole.
template <typename Decode>
ImageSize decode_and_cut(const DecodeRequest& request, Image& into, const Decode& decode) {
  if (!request.part) return decode(into);
  Image whole;
  const ImageSize size = decode(whole);
  crop(whole, wanted_part(request, size), {}, into);
  return size;
}

ImageSize decode_as(ImageFormat format,
                    std::span<const std::uint8_t> file,
                    const DecodeRequest& request,
                    const DecodeLimits& limits,
                    Image& into) {
  switch (format) {
    case ImageFormat::jpeg:
      return decode_jpeg(file, request, limits, nullptr, into);
    case ImageFormat::png:
      return decode_and_cut(
          request, into, [&](Image& image) { return decode_png(file, request, limits, image); });
    case ImageFormat::webp:
      return decode_and_cut(
          request, into, [&](Image& image) { return decode_webp(file, request, limits, image); });
  }
  throw std::logic_error("an image format without a reader");
}

}  // namespace

Region wanted_part(const DecodeRequest& request, ImageSize file) {
  if (!request.part) return {0, 0, file.height, file.width};
  const Region part = request.part(file);
  if (!is_inside(part, file))
    throw std::logic_error("a part of no pixel, or of some outside of the image");
  return part;
}

void require_within(const DecodeLimits& limits, ImageSize size, std::size_t file_bytes) {
  const std::string text = std::to_string(size.width) + " x " + std::to_string(size.height);
  if (size.width <= 0 || size.height <= 0)
    throw BadImage("its header says " + text + " pixels, which is not an image");
  const std::int64_t pixels = std::int64_t{size.width} * size.height;
  if (pixels > limits.pixels)
    throw BadImage("its header says " + text + " pixels, more than the " +
                   std::to_string(limits.pixels) + " allowed");
  const std::int64_t claimed =
      std::max(limits.free_pixels, limits.pixels_per_byte * static_cast<std::int64_t>(file_bytes));
  if (pixels > claimed)
    throw BadImage("its header says " + text + " pixels, more than the " + std::to_string(claimed) +
                   " that a file of " + std::to_string(file_bytes) + " bytes may have");
}

ImageHeader read_image_header(std::span<const std::uint8_t> file) {
  const ImageFormat format = format_of(file);
  switch (format) {
    case ImageFormat::jpeg:
      return {format, read_jpeg_size(file)};
    case ImageFormat::png:
      return {format, read_png_size(file)};
    case ImageFormat::webp:
      return {format, read_webp_size(file)};
  }
  throw std::logic_error("an image format without a reader");
}

ImageSize decode_image(std::span<const std::uint8_t> file,
                       const DecodeRequest& request,
                       const DecodeLimits& limits,
                       Image& into) {
  if (request.channels != 1 && request.channels != 3)
    throw std::logic_error("an image is decoded to 1 or 3 channels");
  if (file.size() > limits.bytes)
    throw BadImage("it has " + std::to_string(file.size()) + " bytes, more than the " +
                   std::to_string(limits.bytes) + " allowed");
  const ImageFormat format = format_of(file);
  if (!request.size) return decode_as(format, file, request, limits, into);
  // Both keep their memory from one image to the next.
  thread_local Resizer resizer;
  thread_local Image whole;
  if (format == ImageFormat::jpeg && request.channels == 3)
    return decode_jpeg(file, request, limits, &resizer, into);
  const ImageSize size = decode_as(format, file, request, limits, whole);
  resizer.resize(whole, *request.size, into);
  return size;
}

}  // namespace ddp::worker
