// Batches from a source: samples are read and augmented, put together, and normalised.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "worker/data/source.h"

namespace ddp::worker {

/// One target of all samples of a batch.
struct Target {
  at::Tensor values;  // [B] for one number a sample, else [sum of rows, ...], sample after sample
  at::Tensor rows;    // [B] of int64: how many are each sample's; undefined: one number each
};

/// Units: pixels are (pixel / 255 - mean) / deviation.
struct Batch {
  at::Tensor input;  // [B, ...]; pixels become numbers of the loader's type
  std::vector<Target> targets;
  std::vector<std::int64_t> indices;  // of the samples

  [[nodiscard]] std::int64_t size() const { return input.size(0); }
  /// Waits for no GPU.
  [[nodiscard]] Batch to(at::Device device) const;
};

class Loader {
 public:
  /// `type` and `layout` are those of pixels that became numbers. Augmentations are drawn from
  /// `seed`, the epoch and the sample's index.
  Loader(std::shared_ptr<const Source> source,
         at::ScalarType type,
         at::MemoryFormat layout = at::MemoryFormat::ChannelsLast,
         std::vector<Augment> augments = {},
         std::uint64_t seed = 0);

  /// The samples of these indices, in this order. Errors: those of the source; UsageError for
  /// inputs, or targets, of different shapes.
  [[nodiscard]] Batch load(std::span<const std::int64_t> indices, std::int64_t epoch = 0) const;

 private:
  [[nodiscard]] at::Tensor normalised(const at::Tensor& bytes) const;

  std::shared_ptr<const Source> source_;
  at::ScalarType type_;
  at::MemoryFormat layout_;
  std::vector<Augment> augments_;
  std::uint64_t seed_;
  at::Tensor mean_;       // [1, C, 1, 1]; undefined: bytes are not normalised
  at::Tensor deviation_;  // [1, C, 1, 1]
};

}  // namespace ddp::worker
