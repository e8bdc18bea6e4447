// mosaic: four images around a point. See worker/data/augment.h for its arguments.
#pragma once

#include "worker/data/augment.h"

namespace ddp::worker {

/// Source: Bochkovskiy et al., YOLOv4, arXiv:2004.10934, section 3.3.
class Mosaic {
 public:
  /// Errors: UsageError.
  explicit Mosaic(const AugmentRequest& request);

  /// The sample's image is above and to the left of the point. Errors: those of the source but for
  /// bad samples; UsageError for what is no image.
  void operator()(Sample& sample, Random& random, const Source& source) const;

 private:
  int size_;
  double share_;
  std::uint64_t closed_from_;
  std::vector<Augment> before_;
};

/// Whether one of these is a mosaic: then an image may be more than was asked for.
bool has_mosaic(std::span<const Augment> augments);

}  // namespace ddp::worker
