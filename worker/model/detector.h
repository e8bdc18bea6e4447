// A model that finds objects: at each anchor point of a grid over the image it predicts the
// distances to the four sides of a box around that point, and its classes.
#pragma once

#include <array>
#include <cstdint>

#include "worker/model/image_model.h"

namespace ddp::worker {

/// forward() takes images [B, C, H, W], with H and W multiples of the last stride, and returns [B,
/// A, kDistances + classes]. For each of A anchor points: the logits of the distance to each side
/// (left, top, right, bottom), then those of the classes. The points are the centres of the cells
/// of one grid per stride, row by row, the smallest stride first.
class Detector : public ImageModel {
 public:
  static constexpr std::int64_t kSides = 4;
  /// A distance is the mean of 0, 1, ... kBins - 1 strides, weighted by the softmax of its logits
  /// (DFL). Source: Li et al., arXiv:2006.04388.
  static constexpr std::int64_t kBins = 16;
  static constexpr std::int64_t kDistances = kSides * kBins;
  static constexpr std::array<std::int64_t, 3> kStrides{8, 16, 32};  // in pixels

  explicit Detector(std::int64_t classes) : classes_(classes) {}

  /// Folds norms into their convolutions, with the current weights and statistics; cannot be
  /// undone. Faster, and equal except for rounding. Only for models that are not trained any more.
  virtual void fuse() {}

  [[nodiscard]] std::int64_t classes() const { return classes_; }

 private:
  std::int64_t classes_;
};

}  // namespace ddp::worker
