// The augmentation `random-perspective` rotates, scales, shears, shifts and tilts an image in one
// pass, and gives it the size that a detector takes. See worker/data/augment/augment.h for its
// arguments.
#pragma once

#include "worker/data/augment/augment.h"
#include "worker/image/collage.h"
#include "worker/image/perspective.h"

namespace ddp::worker {

class RandomPerspective {
 public:
  /// Errors: UsageError.
  explicit RandomPerspective(const AugmentRequest& request);

  void operator()(Sample& sample, Random& random, const Source& source) const;

  /// Whether it takes images of any size, as after a mosaic; else it resizes them first.
  [[nodiscard]] bool takes_any_size() const { return takes_any_size_; }
  /// Moves an image that is not in the sample, into `sample`, which has its boxes. `from` and
  /// `sample` share no memory.
  void move(const Collage& from, Random& random, Sample& sample) const;

 private:
  /// The largest moves of an image.
  struct Ranges {
    double degrees = 0;      // to both sides
    double translate = 0;    // a fraction of the new size
    double scale = 0;        // 1 plus or minus it
    double shear = 0;        // degrees
    double perspective = 0;  // change of depth per pixel
    int size = 0;
  };

  static Matrix3 draw_matrix(const Ranges& most, ImageSize image, Random& random);

  Ranges most_;
  bool takes_any_size_;
};

}  // namespace ddp::worker
