#include "worker/image/color.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace ddp::worker {
namespace {

void require_factor(double factor) {
  if (!(factor >= 0)) throw std::logic_error("a colour is adjusted by a factor below 0");
}

/// Cut off, as when a tensor of floats becomes one of bytes.
std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

/// torchvision's luma, cut off to a whole number. Torch multiplies and adds with one rounding; this
/// rounds to double and then to float. With two roundings to float, 21 colours would differ by one.
float luma(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  const float of_red = 0.2989F * static_cast<float>(red);
  const auto with_green = static_cast<float>(double{0.587F} * green + double{of_red});
  const auto sum = static_cast<float>(double{0.114F} * blue + double{with_green});
  return static_cast<float>(static_cast<int>(sum));
}

/// Mixes `factor` of this value with the rest of another one.
struct Blend {
  explicit Blend(double factor)
      : of_this(static_cast<float>(factor)), of_other(static_cast<float>(1 - factor)) {}
  [[nodiscard]] std::uint8_t operator()(std::uint8_t value, float other) const {
    return to_byte(static_cast<float>(value) * of_this + other * of_other);
  }
  float of_this;
  float of_other;
};

float mean_luma(const Image& image) {
  const std::uint8_t* red = image.plane(0).data();
  const std::size_t count = image.plane_size();
  std::uint64_t sum = 0;  // a sum of whole numbers, so exact
  if (image.channels == 1) {
    sum = std::accumulate(red, red + count, sum);
  } else {
    const std::uint8_t* green = image.plane(1).data();
    const std::uint8_t* blue = image.plane(2).data();
    for (std::size_t i = 0; i < count; ++i)
      sum += static_cast<std::uint64_t>(static_cast<int>(luma(red[i], green[i], blue[i])));
  }
  return static_cast<float>(static_cast<double>(sum) / static_cast<double>(count));
}

}  // namespace

void adjust_brightness(Image& image, double factor) {
  require_factor(factor);
  const auto of_this = static_cast<float>(factor);
  std::array<std::uint8_t, 256> table{};
  for (std::size_t value = 0; value < table.size(); ++value)
    table[value] = to_byte(static_cast<float>(value) * of_this);
  for (std::uint8_t& value : image.bytes)
    value = table[value];
}

void adjust_contrast(Image& image, double factor) {
  require_factor(factor);
  if (image.bytes.empty()) return;
  const float mean = mean_luma(image);
  const Blend blend(factor);
  std::array<std::uint8_t, 256> table{};
  for (std::size_t value = 0; value < table.size(); ++value)
    table[value] = blend(static_cast<std::uint8_t>(value), mean);
  for (std::uint8_t& value : image.bytes)
    value = table[value];
}

void adjust_saturation(Image& image, double factor) {
  require_factor(factor);
  if (image.channels != 3) return;
  const Blend blend(factor);
  std::uint8_t* __restrict red = image.plane(0).data();
  std::uint8_t* __restrict green = image.plane(1).data();
  std::uint8_t* __restrict blue = image.plane(2).data();
  const std::size_t count = image.plane_size();
  for (std::size_t i = 0; i < count; ++i) {
    const float grey = luma(red[i], green[i], blue[i]);
    red[i] = blend(red[i], grey);
    green[i] = blend(green[i], grey);
    blue[i] = blend(blue[i], grey);
  }
}

// A hue is an angle in sixths of the circle: 0 is red, 2 green, 4 blue. A channel has its largest
// value within one sixth of its own hue on either side, its smallest value two sixths further on,
// and is linear between them (HSV; with k below, Smith, Color Gamut Transform Pairs, SIGGRAPH
// 1978). The code uses selects and no branches, so that several pixels are computed at once.
void adjust_hue(Image& image, double shift) {
  if (!(std::abs(shift) <= 0.5))
    throw std::logic_error("a hue is shifted by more than half a circle");
  if (image.channels != 3) return;
  const auto turn = static_cast<float>(6 * shift + 6);         // positive, for the cut below
  constexpr auto kToByte = static_cast<float>(255.999 / 255);  // as torchvision: nearly 256 steps
  std::uint8_t* __restrict red = image.plane(0).data();
  std::uint8_t* __restrict green = image.plane(1).data();
  std::uint8_t* __restrict blue = image.plane(2).data();
  const std::size_t count = image.plane_size();
  for (std::size_t i = 0; i < count; ++i) {
    const float r = red[i];
    const float g = green[i];
    const float b = blue[i];
    const float largest = std::max(std::max(r, g), b);
    const float range = largest - std::min(std::min(r, g), b);
    const float scale = 1 / std::max(range, 1.0F);
    const float of_red = (g - b) * scale;
    const float of_green = (b - r) * scale + 2;
    const float of_blue = (r - g) * scale + 4;
    const float hue = (largest == r ? of_red : largest == g ? of_green : of_blue) + turn;
    const auto channel = [&](float n) {
      const float far = n + hue;
      const float k = far - 6 * static_cast<float>(static_cast<int>(far * (1.0F / 6)));
      const float below = std::min(std::max(std::min(k, 4 - k), 0.0F), 1.0F);
      return static_cast<std::uint8_t>(static_cast<int>((largest - range * below) * kToByte));
    };
    red[i] = channel(5);
    green[i] = channel(3);
    blue[i] = channel(1);
  }
}

void adjust_sharpness(const Image& from, double factor, Image& into) {
  require_factor(factor);
  into.reshape(from.channels, from.size());
  std::copy(from.bytes.begin(), from.bytes.end(), into.bytes.begin());
  if (from.height <= 2 || from.width <= 2) return;
  const auto of_smooth = static_cast<float>(1 - factor);
  const int last = from.width - 1;
  for (int channel = 0; channel < from.channels; ++channel) {
    for (int y = 1; y + 1 < from.height; ++y) {
      const std::uint8_t* __restrict above = from.row(channel, y - 1);
      const std::uint8_t* __restrict row = from.row(channel, y);
      const std::uint8_t* __restrict below = from.row(channel, y + 1);
      std::uint8_t* __restrict out = into.row(channel, y);
      for (int x = 1; x < last; ++x) {
        const int sum = above[x - 1] + above[x] + above[x + 1] + row[x - 1] + 5 * row[x] +
                        row[x + 1] + below[x - 1] + below[x] + below[x + 1];
        // No thirteenth is exactly a half, so this rounds correctly.
        const int smooth = static_cast<int>(static_cast<float>(sum) * (1.0F / 13) + 0.5F);
        const float value = row[x];
        out[x] = to_byte(value + of_smooth * (static_cast<float>(smooth) - value));
      }
    }
  }
}

}  // namespace ddp::worker
