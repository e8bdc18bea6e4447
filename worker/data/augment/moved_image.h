// What an augmentation may do to an image when it moves pixels and keeps their values, one
// operation after the other. Some images have pixels (SampleImage), of others only where each pixel
// comes from is noted (PixelMap).
#pragma once

#include "worker/image/geometry.h"

namespace ddp::worker {

class MovedImage {
 public:
  MovedImage() = default;
  MovedImage(const MovedImage&) = delete;
  MovedImage& operator=(const MovedImage&) = delete;
  virtual ~MovedImage() = default;

  [[nodiscard]] virtual ImageSize size() const = 0;
  virtual void flip_horizontal() = 0;
  virtual void flip_vertical() = 0;
  /// As crop() of worker/image/geometry.h.
  virtual void crop(const Region& region, const Border& border) = 0;
  /// Paints a rectangle black, clipped at the image.
  virtual void erase(const Region& region) = 0;
};

}  // namespace ddp::worker
