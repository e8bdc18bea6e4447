// Evaluation without letterbox padding: each image keeps a rectangle of its own shape, and a batch
// holds images of one rectangle.
// Promises: the rectangle of an image depends on its size alone, not on the number of ranks, nor on
// what it shares a batch with; so an evaluation is the same for any number of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "worker/data/source.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// The larger side is `side`, the other one what letterbox() leaves of it, up to the next multiple
/// of `multiple`. Precondition: the image has a pixel, and neither number is below 1.
ImageSize rectangle_of(ImageSize image, int side, int multiple);

/// Those of all images of a set, which its source tells (Source::image_size).
class RectangularBatches {
 public:
  /// `sizes` by sample; an image of no known size has a square.
  RectangularBatches(std::span<const std::optional<ImageSize>> sizes, int side, int multiple);

  /// What brings an image into its rectangle. Keeps a copy.
  [[nodiscard]] Augment letterbox() const;

  /// The batches of `rank`: of one rectangle each, at most `batch` images, the largest rectangles
  /// first, as they need the most memory. Each image once over all ranks, and of each rectangle
  /// about as many on each.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> batches(int world_size,
                                                               int rank,
                                                               std::int64_t batch) const;

 private:
  std::vector<ImageSize> rectangles_;  // by sample
};

}  // namespace ddp::worker
