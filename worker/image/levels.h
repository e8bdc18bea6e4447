// Functions that replace values by a table: posterize, solarize, autocontrast, equalize. In place,
// each channel separately, with exactly torchvision's results.
#pragma once

#include "worker/image/image.h"

namespace ddp::worker {

/// Keeps the upper `bits`. Errors: std::logic_error when not in [0, 8].
void posterize(Image& image, int bits);

/// Inverts values that are not below `threshold`. Errors: std::logic_error when not in [0, 255].
void solarize(Image& image, double threshold);

/// Stretches each channel from its smallest and largest value to 0 and 255.
void autocontrast(Image& image);

/// Makes all values about equally frequent.
void equalize(Image& image);

}  // namespace ddp::worker
