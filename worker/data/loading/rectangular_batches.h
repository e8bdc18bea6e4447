// Evaluation with little letterbox padding: each image is fitted into a rectangle near its own
// shape, and a batch holds images with the same rectangle.
// Promises: the rectangle of an image depends on its size alone, not on the number of ranks or on
// the other images of its batch, so an evaluation is the same for any number of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "worker/data/source.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// The rectangle of an image: its larger side is `side`; the other one keeps the image's ratio,
/// rounded up to a multiple of `multiple`. Precondition: the image has a pixel, and neither number
/// is below 1.
ImageSize rectangle_of(ImageSize image, int side, int multiple);

/// The rectangles of all images of a set, from their sizes (Source::image_size).
class RectangularBatches {
 public:
  /// `sizes` by sample; an image of unknown size gets a square.
  RectangularBatches(std::span<const std::optional<ImageSize>> sizes, int side, int multiple);

  /// The augmentation that fits an image into its rectangle. It keeps a copy of the rectangles.
  [[nodiscard]] Augment letterbox() const;

  /// The batches of `rank`: each has one rectangle and at most `batch` images. The largest
  /// rectangles come first, because they need the most memory. Each image goes to exactly one rank,
  /// and each rank gets about equally many images of each rectangle.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> batches(int world_size,
                                                               int rank,
                                                               std::int64_t batch) const;

 private:
  std::vector<ImageSize> rectangles_;  // by sample
};

}  // namespace ddp::worker
