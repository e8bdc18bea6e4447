// The image that an augmentation works on if it only moves pixels and keeps their values: it calls
// these functions one after the other. There are two kinds: a SampleImage has pixels; a PixelMap
// only records where each pixel comes from.
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
  /// Paints a rectangle black. Parts outside of the image are ignored.
  virtual void erase(const Region& region) = 0;
};

}  // namespace ddp::worker
