// Changes hue, saturation and value of HSV in one pass. A training of detectors does this to every
// image, so it is fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/image/image.h"

namespace ddp::worker {

/// Turns the hue by `shift` of a full circle, in [-0.5, 0.5]; multiplies saturation and value,
/// limited to their largest values. Rounds to the nearest. In a grey image only the value changes.
/// Errors: std::logic_error for other shifts, and factors below 0.
/// Source: Smith, Color Gamut Transform Pairs, SIGGRAPH 1978.
void adjust_hsv(Image& image, double shift, double saturation, double value);

/// The change of each pixel.
struct HsvChange {
  float turn = 0;  // in sixths of the circle, -3 to 3
  float saturation = 1;
  float value = 1;
};

/// The planes of an image in colours.
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

/// The kernels that this CPU can run: the one for every CPU first, the fastest one last.
const std::vector<HsvKernel>& hsv_kernels();

}  // namespace ddp::worker
