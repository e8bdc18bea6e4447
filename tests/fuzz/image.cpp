// Any bytes as a JPEG, PNG or WebP: one BadImage, or pixels that fill their shape and are the same
// again.
#include "tests/fuzz/fuzz.h"
#include "worker/image/decode.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ddp::worker::ImageSize;
  constexpr ddp::worker::DecodeLimits kLimits{.pixels = 1 << 16, .bytes = 1 << 20};
  for (const int channels : {1, 3}) {
    const ddp::worker::DecodeWish wish{.channels = channels, .at_least = ImageSize{16, 16}};
    ddp::worker::Image image;
    ddp::worker::Image again;
    again.bytes.assign(std::size_t{3} << 16, 0xAA);  // nothing of it must be seen
    try {
      const ImageSize in_file = decode_image({data, size}, wish, kLimits, image);
      decode_image({data, size}, wish, kLimits, again);
      ddp::fuzz::require(ddp::worker::read_image_header({data, size}).size == in_file,
                         "the header says the size");
      ddp::fuzz::require(image.channels == channels, "the channels are the asked ones");
      ddp::fuzz::require(
          image.bytes.size() == image.plane_size() * static_cast<std::size_t>(channels),
          "the shape is full");
      ddp::fuzz::require(image == again, "the same bytes give the same pixels");
    } catch (const ddp::worker::BadImage&) {
    }
  }
  return 0;
}
