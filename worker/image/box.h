// Boxes: where objects are in an image, also after it was flipped, cropped, resized or moved. For
// every function of worker/image/geometry, resize, affine and perspective that moves pixels there
// is one here that moves boxes.
#pragma once

#include <optional>

#include "worker/image/affine.h"
#include "worker/image/image.h"
#include "worker/image/perspective.h"

namespace ddp::worker {

/// Units: pixels; right and bottom are exclusive: a box around the whole image is {0, 0, width,
/// height}.
struct Box {
  float left = 0;
  float top = 0;
  float right = 0;
  float bottom = 0;

  bool operator==(const Box&) const = default;
};

/// The area; 0 for an empty box.
float area(const Box& box);

/// The part of `box` inside of the image. No value when it is empty, or less than the fraction
/// `least` of the box's area.
std::optional<Box> clip(const Box& box, ImageSize image, float least = 0);

Box flip_horizontal(const Box& box, ImageSize image);

Box flip_vertical(const Box& box, ImageSize image);

/// The box after a crop or a pad; clipped as by clip().
std::optional<Box> crop(const Box& box, const Region& region, float least = 0);

Box resize(const Box& box, ImageSize from, ImageSize to);

/// The box around the moved corners, not clipped.
Box move_affine(const Box& box, const Affine& affine, ImageSize image);

/// The same for a matrix of worker/image/perspective.h. No value when a corner moves to the horizon
/// or behind it.
std::optional<Box> move_perspective(const Box& box, const Matrix3& matrix);

}  // namespace ddp::worker
