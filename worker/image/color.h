// Pixels that stay where they are and change their values: brightness, contrast, saturation, hue,
// sharpness. The arithmetic is that of torchvision's v2.functional on uint8 tensors: float32, and
// the result cut off, not rounded.
// Errors of all: std::logic_error for a factor that torchvision refuses.
#pragma once

#include "worker/image/image.h"

namespace ddp::worker {

/// 0 is black, 1 the image. Precondition of all factors: not negative.
void adjust_brightness(Image& image, double factor);

/// 0 is the mean grey, 1 the image.
void adjust_contrast(Image& image, double factor);

/// 0 is grey, 1 the image. A grey image stays.
void adjust_saturation(Image& image, double factor);

/// Turns the hue by `shift` of a full circle, in [-0.5, 0.5]. A grey image stays.
void adjust_hue(Image& image, double shift);

/// 0 is smoothed, 1 the image, 2 sharper. The outermost pixels stay.
/// `from` and `into` are not the same image.
void adjust_sharpness(const Image& from, double factor, Image& into);

}  // namespace ddp::worker
