// Samples put together into what a task takes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddp::worker {

/// One target of all samples of a batch.
struct Target {
  at::Tensor values;  // [B] for one number a sample, else [sum of rows, ...], sample after sample
  at::Tensor rows;    // [B] of int64: the rows of each sample; undefined: one number each
};

/// Units: pixels are (pixel / 255 - mean) / deviation.
struct Batch {
  at::Tensor input;  // [B, ...]; pixels are numbers of the loader's type
  std::vector<Target> targets;
  std::vector<std::int64_t> indices;  // of the samples

  [[nodiscard]] std::int64_t size() const { return input.defined() ? input.size(0) : 0; }
  /// Does not wait for a GPU.
  [[nodiscard]] Batch to(at::Device device) const;
};

}  // namespace ddp::worker
