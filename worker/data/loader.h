// Batches of an image set that lives in memory: bytes in, normalised images out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "worker/data/dataset.h"

namespace ddp::worker {

/// Shapes: images [B, C, H, W], labels [B]. Units: images are (pixel / 255 - mean) /
/// deviation.
struct Batch {
  at::Tensor images;  // of the loader's dtype
  at::Tensor labels;  // int64
};

class Loader {
 public:
  /// `set` outlives the loader, which copies nothing. `layout` is that of the images.
  Loader(const ImageSet& set,
         at::ScalarType dtype,
         at::MemoryFormat layout = at::MemoryFormat::ChannelsLast);

  /// The samples of these indices, in this order. Errors: std::out_of_range for an index outside
  /// the set.
  [[nodiscard]] Batch load(std::span<const std::int64_t> indices) const;

 private:
  const ImageSet& set_;
  at::MemoryFormat layout_;
  at::Tensor pixels_;  // [N, C, H, W] of bytes, a view into the set
  at::Tensor labels_;  // [N] of bytes, a view into the set
  at::Tensor mean_;    // [1, C, 1, 1]
  at::Tensor scale_;   // [1, C, 1, 1], 1 / deviation
};

}  // namespace ddp::worker
