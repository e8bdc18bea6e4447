#include "worker/image/hsv.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ddp::worker {
namespace {

// Inlined into functions for several CPUs: see hsv_kernels().
#define DDP_INLINE [[gnu::always_inline]] inline

DDP_INLINE std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(static_cast<int>(value + 0.5F));
}

/// Limits a number to [0, 1].
DDP_INLINE float clamp01(float value) {
  return std::min(std::max(value, 0.0F), 1.0F);
}

// A hue is an angle in sixths of the circle: 0 is red, 2 green, 4 blue. A channel has its largest
// value within one sixth of its own hue on either side, its smallest value two sixths further on,
// and is linear between them. The code uses selects and no branches, so that several pixels are
// computed at once.
DDP_INLINE void change_all(const HsvChange change, const HsvPlanes planes) {
  std::uint8_t* __restrict red = planes.red;
  std::uint8_t* __restrict green = planes.green;
  std::uint8_t* __restrict blue = planes.blue;
  const std::size_t count = planes.count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t r = red[i];
    const std::uint8_t g = green[i];
    const std::uint8_t b = blue[i];
    const std::uint8_t most = std::max(std::max(r, g), b);
    const std::uint8_t least = std::min(std::min(r, g), b);
    // The channels on either side of the largest one on the circle, and the largest one's own hue.
    const std::uint8_t ahead = most == r ? g : most == g ? b : r;
    const std::uint8_t behind = most == r ? b : most == g ? r : g;
    const std::uint8_t own = most == r ? 0 : most == g ? 2 : 4;
    const float largest = most;
    const auto range = static_cast<float>(most - least);
    const float scale = 1 / std::max(range, 1.0F);
    const auto beside = static_cast<float>(ahead - behind);
    const float turned = beside * scale + static_cast<float>(own) + change.turn;
    const float above = turned + (turned < 0 ? 6.0F : 0.0F);
    const float hue = above - (above >= 6 ? 6.0F : 0.0F);
    const float new_largest = std::min(largest * change.value, 255.0F);
    const float saturation = std::min(range * change.saturation / std::max(largest, 1.0F), 1.0F);
    const float new_range = new_largest * saturation;
    const float smallest = new_largest - new_range;
    red[i] = to_byte(smallest + new_range * clamp01(std::abs(hue - 3) - 1));
    green[i] = to_byte(smallest + new_range * clamp01(2 - std::abs(hue - 2)));
    blue[i] = to_byte(smallest + new_range * clamp01(2 - std::abs(hue - 4)));
  }
}

void change_plain(const HsvChange& change, const HsvPlanes& planes) {
  change_all(change, planes);
}

#ifdef __SSE2__
/// The same operations, each with one rounding, on twice as many pixels at once.
__attribute__((target("avx2"))) void change_avx2(const HsvChange& change, const HsvPlanes& planes) {
  change_all(change, planes);
}

/// The same on four times as many.
__attribute__((target("avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))) void change_avx512(
    const HsvChange& change, const HsvPlanes& planes) {
  change_all(change, planes);
}
#endif

}  // namespace

const std::vector<HsvKernel>& hsv_kernels() {
  static const std::vector<HsvKernel> kKernels = [] {
    std::vector<HsvKernel> kernels{{"plain", change_plain}};
#ifdef __SSE2__
    if (__builtin_cpu_supports("avx2")) kernels.push_back({"AVX2", change_avx2});
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
      kernels.push_back({"AVX-512", change_avx512});
#endif
    return kernels;
  }();
  return kKernels;
}

void adjust_hsv(Image& image, double shift, double saturation, double value) {
  if (!(std::abs(shift) <= 0.5))
    throw std::logic_error("a hue is shifted by more than half a circle");
  if (!(saturation >= 0) || !(value >= 0))
    throw std::logic_error("saturation or value is multiplied by a factor below 0");
  const HsvChange change{
      static_cast<float>(6 * shift), static_cast<float>(saturation), static_cast<float>(value)};
  if (image.channels == 3) {
    return hsv_kernels().back().change(
        change,
        {image.plane(0).data(), image.plane(1).data(), image.plane(2).data(), image.plane_size()});
  }
  for (std::uint8_t& byte : image.bytes)
    byte = to_byte(std::min(static_cast<float>(byte) * change.value, 255.0F));
}

}  // namespace ddp::worker
