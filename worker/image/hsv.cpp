#include "worker/image/hsv.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ddp::worker {
namespace {

/// What is done to each pixel.
struct Change {
  float turn;  // in sixths of the circle, -3 to 3
  float saturation;
  float value;
};

/// The planes of an image in colours.
struct Planes {
  std::uint8_t* red;
  std::uint8_t* green;
  std::uint8_t* blue;
  std::size_t count;
};

// They become a part of functions for several CPUs: see change_all().
#define DDP_INLINE [[gnu::always_inline]] inline

DDP_INLINE std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(static_cast<int>(value + 0.5F));
}

/// From 0 to 1.
DDP_INLINE float cut(float value) {
  return std::min(std::max(value, 0.0F), 1.0F);
}

// A hue is an angle in sixths of the circle: 0 is red, 2 green, 4 blue. A channel is at the largest
// value within one sixth of its own hue on either side, at the smallest two sixths further on, and
// goes straight between. All in selects and no branch, so that several pixels are done at once.
DDP_INLINE void change_all(const Change change, const Planes planes) {
  std::uint8_t* __restrict red = planes.red;
  std::uint8_t* __restrict green = planes.green;
  std::uint8_t* __restrict blue = planes.blue;
  const std::size_t count = planes.count;
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
    const float turned = (largest == r ? of_red : largest == g ? of_green : of_blue) + change.turn;
    const float above = turned + (turned < 0 ? 6.0F : 0.0F);
    const float hue = above - (above >= 6 ? 6.0F : 0.0F);
    const float new_largest = std::min(largest * change.value, 255.0F);
    const float saturation = std::min(range * change.saturation / std::max(largest, 1.0F), 1.0F);
    const float new_range = new_largest * saturation;
    const float smallest = new_largest - new_range;
    red[i] = to_byte(smallest + new_range * cut(std::abs(hue - 3) - 1));
    green[i] = to_byte(smallest + new_range * cut(2 - std::abs(hue - 2)));
    blue[i] = to_byte(smallest + new_range * cut(2 - std::abs(hue - 4)));
  }
}

void change_anywhere(const Change& change, const Planes& planes) {
  change_all(change, planes);
}

#ifdef __SSE2__
/// The same operations, each with one rounding, on twice as many pixels at once.
__attribute__((target("avx2"))) void change_with_avx2(const Change& change, const Planes& planes) {
  change_all(change, planes);
}
#endif

using Way = void (*)(const Change&, const Planes&);

Way best_way() {
#ifdef __SSE2__
  if (__builtin_cpu_supports("avx2")) return change_with_avx2;
#endif
  return change_anywhere;
}

}  // namespace

void adjust_hsv(Image& image, double shift, double saturation, double value) {
  if (!(std::abs(shift) <= 0.5))
    throw std::logic_error("a hue is shifted by more than half a circle");
  if (!(saturation >= 0) || !(value >= 0))
    throw std::logic_error("saturation or value is multiplied by a factor below 0");
  const Change change{
      static_cast<float>(6 * shift), static_cast<float>(saturation), static_cast<float>(value)};
  if (image.channels == 3) {
    static const Way kWay = best_way();
    return kWay(
        change,
        {image.plane(0).data(), image.plane(1).data(), image.plane(2).data(), image.plane_size()});
  }
  for (std::uint8_t& byte : image.bytes)
    byte = to_byte(std::min(static_cast<float>(byte) * change.value, 255.0F));
}

}  // namespace ddp::worker
