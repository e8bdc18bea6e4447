// Hue, saturation and value of HSV, changed in one pass: what a training of detectors does to the
// colours of every image, so it is fast.
#pragma once

#include "worker/image/image.h"

namespace ddp::worker {

/// Turns the hue by `shift` of a full circle, in [-0.5, 0.5]; multiplies saturation and value, and
/// cuts them off at their largest. Rounded to the nearest. Of a grey image the value is changed
/// alone. Errors: std::logic_error for other shifts, and factors below 0.
/// Source: Smith, Color Gamut Transform Pairs, SIGGRAPH 1978.
void adjust_hsv(Image& image, double shift, double saturation, double value);

}  // namespace ddp::worker
