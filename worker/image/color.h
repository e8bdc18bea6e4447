// Functions that change the values of pixels but not their places: brightness, contrast,
// saturation, hue, sharpness. The arithmetic is that of torchvision's v2.functional on uint8
// tensors: float32, with the result truncated, not rounded.
// Errors of all functions: std::logic_error for a factor that torchvision refuses.
#pragma once

#include "worker/image/image.h"

namespace ddp::worker {

/// 0 gives black, 1 the image itself. Precondition of all factors: not negative.
void adjust_brightness(Image& image, double factor);

/// 0 gives the mean grey, 1 the image itself.
void adjust_contrast(Image& image, double factor);

/// 0 gives grey, 1 the image itself. A grey image stays as it is.
void adjust_saturation(Image& image, double factor);

/// Turns the hue by `shift` of a full circle, in [-0.5, 0.5]. A grey image stays as it is.
void adjust_hue(Image& image, double shift);

/// 0 gives a smoothed image, 1 the image itself, 2 a sharper one. The outermost pixels do not
/// change. `from` and `into` are not the same image.
void adjust_sharpness(const Image& from, double factor, Image& into);

}  // namespace ddp::worker
