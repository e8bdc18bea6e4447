// A batch: samples joined into tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddp::worker {

/// One kind of target, of all samples of a batch.
struct Target {
  at::Tensor values;  // [B] for one number each, else [sum of rows, ...], sample after sample
  at::Tensor rows;    // [B] of int64: how many rows each sample has; undefined: one number each
};

/// Units: the values of pixels are (pixel / 255 - mean) / deviation.
struct Batch {
  at::Tensor input;  // [B, ...]; pixels have the loader's type
  std::vector<Target> targets;
  std::vector<std::int64_t> indices;  // of the samples

  [[nodiscard]] std::int64_t size() const { return input.defined() ? input.size(0) : 0; }
  /// The host does not wait for a GPU.
  [[nodiscard]] Batch to(at::Device device) const;
};

}  // namespace ddp::worker
