// Any bytes as a JPEG, PNG or WebP, the whole and a part: one BadImage, or pixels that fill their
// shape and are the same again; and a part that is the same as in the whole.
#include "tests/fuzz/fuzz.h"
#include "worker/image/decode.h"
#include "worker/image/geometry.h"
#include "worker/image/orientation.h"
#include "worker/image/resize.h"

namespace {

ddp::worker::Region middle(ddp::worker::ImageSize size) {
  return {size.height / 3, size.width / 3, (size.height + 1) / 2, (size.width + 1) / 2};
}

void check_part(std::span<const std::uint8_t> file,
                int channels,
                const ddp::worker::DecodeLimits& limits) {
  ddp::worker::Image whole;
  ddp::worker::Image part;
  ddp::worker::Image cut;
  ddp::worker::Image cut_resized;
  decode_image(file, {.channels = channels, .at_least = {}}, limits, whole);
  decode_image(file, {.channels = channels, .at_least = {}, .part = middle}, limits, part);
  crop(whole, middle(whole.size()), {}, cut);
  ddp::fuzz::require(part == cut, "a part has the pixels that it has in the whole");
  constexpr ddp::worker::ImageSize kSize{9, 17};
  ddp::worker::Image resized;
  ddp::worker::Resizer().resize(cut, kSize, cut_resized);
  decode_image(
      file, {.channels = channels, .at_least = {}, .part = middle, .size = kSize}, limits, resized);
  ddp::fuzz::require(resized == cut_resized, "a size has the pixels of a resize");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ddp::worker::ImageSize;
  constexpr ddp::worker::DecodeLimits kLimits{.pixels = 1 << 16, .bytes = 1 << 20};
  for (const int channels : {1, 3}) {
    const ddp::worker::DecodeRequest request{.channels = channels, .at_least = ImageSize{16, 16}};
    ddp::worker::Image image;
    ddp::worker::Image again;
    again.bytes.assign(std::size_t{3} << 16, 0xAA);  // nothing of it must be seen
    try {
      const ImageSize in_file = decode_image({data, size}, request, kLimits, image);
      decode_image({data, size}, request, kLimits, again);
      ddp::fuzz::require(ddp::worker::read_image_header({data, size}).size == in_file,
                         "the header says the size");
      ddp::fuzz::require(image.channels == channels, "the channels are the asked ones");
      ddp::fuzz::require(
          image.bytes.size() == image.plane_size() * static_cast<std::size_t>(channels),
          "the shape is full");
      ddp::fuzz::require(image == again, "the same bytes give the same pixels");
      check_part({data, size}, channels, kLimits);
      const ddp::worker::Orientation orientation = ddp::worker::read_orientation({data, size});
      orient(again, orientation);
      ddp::fuzz::require(again.size() == ddp::worker::oriented_size(image.size(), orientation),
                         "a turned image has the size that was told");
    } catch (const ddp::worker::BadImage&) {
    }
  }
  return 0;
}
