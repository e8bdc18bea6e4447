// Changes hue, saturation and value of HSV in one pass. Optimised, because the training of a
// detector does this to every image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/image/image.h"

namespace ddp::worker {

/// Rotates the hue by `shift` of a full circle, in [-0.5, 0.5]; multiplies saturation and value,
/// and clamps them. Rounds to nearest. In a grey image only the value changes. Errors:
/// std::logic_error for other shifts, and for factors below 0.
/// Source: Smith, Color Gamut Transform Pairs, SIGGRAPH 1978.
void adjust_hsv(Image& image, double shift, double saturation, double value);

/// The change of each pixel.
struct HsvChange {
  float turn = 0;  // of the hue, in sixths of the circle, -3 to 3
  float saturation = 1;
  float value = 1;
};

/// The planes of a colour image.
struct HsvPlanes {
  std::uint8_t* red = nullptr;
  std::uint8_t* green = nullptr;
  std::uint8_t* blue = nullptr;
  std::size_t count = 0;
};

/// One implementation. All of them round the same numbers in the same order, so they give the same
/// pixels.
struct HsvKernel {
  using Change = void (*)(const HsvChange& change, const HsvPlanes& planes);

  const char* name = "";
  Change change = nullptr;
};

/// The kernels that this CPU can run: the portable one first, the fastest one last.
const std::vector<HsvKernel>& hsv_kernels();

}  // namespace ddp::worker
