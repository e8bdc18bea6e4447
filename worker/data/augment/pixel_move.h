// An augmentation that moves pixels and keeps their values, written once for images of a Loader and
// for images on a device.
#pragma once

#include <functional>
#include <utility>

#include "worker/data/augment/augment.h"
#include "worker/data/augment/moved_image.h"
#include "worker/data/augment/sample_image.h"

namespace ddp::worker {

class PixelMove {
 public:
  /// May depend on the image's size and on `random`, not on pixels.
  using Move = std::function<void(MovedImage& image, Random& random)>;
  explicit PixelMove(Move move) : move_(std::move(move)) {}

  void operator()(Sample& sample, Random& random, const Source& /*source*/) const {
    SampleImage image(sample);
    move_(image, random);
  }
  void move(MovedImage& image, Random& random) const { move_(image, random); }

 private:
  Move move_;
};

}  // namespace ddp::worker
