// How a whole image is fitted into a square frame (its larger side becomes the frame's, the rest is
// border), or into a rectangle. Both the augmentation and the code that maps boxes back use this,
// so they agree on every pixel.
#pragma once

#include <optional>

#include "worker/image/box.h"
#include "worker/image/image.h"

namespace ddp::worker {

struct Letterbox {
  ImageSize image;    // before resizing
  ImageSize resized;  // neither side is below 1, so a thin image is stretched
  Region frame;       // the frame, in pixels of the resized image, beyond which it reaches

  bool operator==(const Letterbox&) const = default;
};

/// Precondition: the image has a pixel, and `side` is above 0.
Letterbox fit_letterbox(ImageSize image, int side);
/// The same into a rectangle: the image fills it along one side, and the rest is border.
/// Precondition: neither side of `frame` is below 1.
Letterbox fit_letterbox(ImageSize image, ImageSize frame);

/// Maps pixels of the image to those of the frame, and back. Neither clips.
Box into_frame(const Box& box, const Letterbox& letterbox);
Box out_of_frame(const Box& box, const Letterbox& letterbox);

/// The part of a box in the frame that lies in the image, in pixels of the image. No value for a
/// box that lies only in the border, or is empty.
std::optional<Box> box_in_image(const Box& box, const Letterbox& letterbox);

}  // namespace ddp::worker
