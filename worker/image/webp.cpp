#include "worker/image/webp.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>
#include <string>
#include <vector>

#include "worker/image/pixel_rows.h"

namespace ddp::worker {
namespace {

[[noreturn]] void refuse(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      throw std::bad_alloc();
    case VP8_STATUS_NOT_ENOUGH_DATA:
      throw BadImage("it is cut off");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      throw BadImage("it is a WebP of a kind that is not read (libwebp: unsupported feature)");
    default:
      throw BadImage("it is a damaged WebP (libwebp: status " + std::to_string(status) + ")");
  }
}

WebPBitstreamFeatures read_features(std::span<const std::uint8_t> file) {
  WebPBitstreamFeatures features{};
  const VP8StatusCode status = ::WebPGetFeatures(file.data(), file.size(), &features);
  if (status != VP8_STATUS_OK) refuse(status);
  return features;
}

[[noreturn]] void refuse_version() {
  throw std::logic_error("libwebp is not of the version of its headers");
}

std::size_t row_bytes(const Image& image) {
  return static_cast<std::size_t>(image.width) * 4;
}

/// Fills an image with `pixels`: red, green, blue, alpha of each, row by row. They may change.
void put(std::uint8_t* pixels, const std::optional<Color>& background, Image& into) {
  for (int y = 0; y < into.height; ++y) {
    std::uint8_t* const row = pixels + static_cast<std::size_t>(y) * row_bytes(into);
    if (background) paste_onto(*background, static_cast<std::size_t>(into.width), row);
    split_row(row, y, into);
  }
}

/// `into` has the file's size.
void decode_still(std::span<const std::uint8_t> file,
                  const std::optional<Color>& background,
                  Image& into) {
  std::vector<std::uint8_t> pixels(row_bytes(into) * static_cast<std::size_t>(into.height));
  WebPDecoderConfig config{};
  if (::WebPInitDecoderConfig(&config) == 0) refuse_version();
  config.output.colorspace = MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {.rgba = pixels.data(), .stride = into.width * 4, .size = pixels.size()};
  const VP8StatusCode status = ::WebPDecode(file.data(), file.size(), &config);
  ::WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) refuse(status);
  put(pixels.data(), background, into);
}

/// The same of an animated file: its canvas with the first frame.
void decode_first_frame(std::span<const std::uint8_t> file,
                        const std::optional<Color>& background,
                        Image& into) {
  WebPAnimDecoderOptions options{};
  if (::WebPAnimDecoderOptionsInit(&options) == 0) refuse_version();
  options.color_mode = MODE_RGBA;
  const WebPData data{file.data(), file.size()};
  const std::unique_ptr<WebPAnimDecoder, decltype(&::WebPAnimDecoderDelete)> decoder(
      ::WebPAnimDecoderNew(&data, &options), &::WebPAnimDecoderDelete);
  WebPAnimInfo info{};
  std::uint8_t* frame = nullptr;
  int shown_until = 0;  // ms
  if (!decoder || ::WebPAnimDecoderGetInfo(decoder.get(), &info) == 0 ||
      info.canvas_width != static_cast<std::uint32_t>(into.width) ||
      info.canvas_height != static_cast<std::uint32_t>(into.height) ||
      ::WebPAnimDecoderGetNext(decoder.get(), &frame, &shown_until) == 0)
    throw BadImage("it is an animated WebP that is damaged or cut off");
  put(frame, background, into);
}

}  // namespace

ImageSize read_webp_size(std::span<const std::uint8_t> file) {
  const WebPBitstreamFeatures features = read_features(file);
  return {features.height, features.width};
}

ImageSize decode_webp(std::span<const std::uint8_t> file,
                      const DecodeRequest& request,
                      const DecodeLimits& limits,
                      Image& into) {
  const WebPBitstreamFeatures features = read_features(file);
  const ImageSize size{features.height, features.width};
  require_within(limits, size, file.size());
  into.reshape(request.channels, size);
  const auto background = features.has_alpha != 0 ? request.background : std::nullopt;
  if (features.has_animation != 0)
    decode_first_frame(file, background, into);
  else
    decode_still(file, background, into);
  return size;
}

}  // namespace ddp::worker
