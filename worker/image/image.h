// An image as bytes, without Torch: the value that worker/image decodes, moves and recolours.
// Pixels are planar, [channels, height, width], as in a sample, and functions that treat each
// channel separately (resize, flips, tables) run over contiguous rows. Decoders give interleaved
// pixels; each row is split once, while it is in the cache.
// Functions write their result into a parameter (`into`), so that an image can reuse its memory
// from one call to the next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace ddp::worker {

struct ImageSize {
  int height = 0;
  int width = 0;

  bool operator==(const ImageSize&) const = default;
};

/// A rectangle of pixels. Where a function says so, it may reach beyond the image.
struct Region {
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;

  [[nodiscard]] ImageSize size() const { return {height, width}; }
  bool operator==(const Region&) const = default;
};

/// Whether the region is not empty, and inside of an image of that size.
inline bool is_inside(const Region& region, ImageSize image) {
  return region.top >= 0 && region.left >= 0 && region.height > 0 && region.width > 0 &&
         region.top <= image.height - region.height && region.left <= image.width - region.width;
}

/// Red, green, blue; where a grey image is drawn on or filled, only the first counts.
using Color = std::array<std::uint8_t, 3>;

struct Image {
  int channels = 0;  // 1 (grey) or 3 (red, green, blue)
  int height = 0;
  int width = 0;
  std::vector<std::uint8_t> bytes;  // [channels, height, width]

  /// Gives the image another shape. Its bytes are then undefined.
  void reshape(int new_channels, ImageSize size) {
    channels = new_channels;
    height = size.height;
    width = size.width;
    bytes.resize(static_cast<std::size_t>(channels) * plane_size());
  }

  [[nodiscard]] ImageSize size() const { return {height, width}; }
  [[nodiscard]] std::size_t plane_size() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  }
  [[nodiscard]] std::span<std::uint8_t> plane(int channel) {
    return std::span(bytes).subspan(static_cast<std::size_t>(channel) * plane_size(), plane_size());
  }
  [[nodiscard]] std::span<const std::uint8_t> plane(int channel) const {
    return std::span(bytes).subspan(static_cast<std::size_t>(channel) * plane_size(), plane_size());
  }
  [[nodiscard]] std::uint8_t* row(int channel, int y) {
    return plane(channel).data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width);
  }
  [[nodiscard]] const std::uint8_t* row(int channel, int y) const {
    return plane(channel).data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width);
  }

  bool operator==(const Image&) const = default;
};

/// The file is damaged, too large, or of an unsupported format. The message says what is wrong ("it
/// is cut off"); the caller adds which file.
class BadImage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ddp::worker
