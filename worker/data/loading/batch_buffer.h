// A batch that one or more threads assemble. Its memory is reused for the next batch once nobody
// holds the last one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <mutex>
#include <vector>

#include "worker/data/loading/batch.h"
#include "worker/data/loading/pixel_table.h"
#include "worker/data/sample.h"

namespace ddp::worker {

class BatchBuffer {
 public:
  /// `table` outlives it; null: bytes stay bytes. `layout` is the memory format of images.
  /// `is_pinned`: uses pinned memory, for copies to a GPU. LibTorch keeps that until the copies are
  /// done, so each batch gets new memory.
  BatchBuffer(const PixelTable* table, at::MemoryFormat layout, bool is_pinned = false)
      : table_(table), layout_(layout), is_pinned_(is_pinned) {}

  /// Starts a batch of so many samples. Keeps only the memory of the last batch.
  void begin(std::size_t samples);

  /// Puts a sample into the batch. Several threads may call it at once; it is called once for each
  /// place. Swaps the sample's targets with old ones, whose buffers the caller can reuse. Errors:
  /// UsageError for an input of another type or shape than that of other samples.
  void put(std::size_t place, Sample& sample);

  /// Call it when all samples are put. Leaves out places without a sample. Errors: UsageError for
  /// targets of different types or shapes.
  [[nodiscard]] Batch take();

 private:
  struct Place {
    bool is_there = false;
    std::int64_t index = 0;  // of the sample
    std::vector<Array> targets;
  };

  /// The memory of this batch, allocated by its first sample. Errors: as put().
  const at::Tensor& memory_for(const Array& input);

  const PixelTable* table_;
  at::MemoryFormat layout_;
  bool is_pinned_;
  std::vector<Place> places_;
  std::mutex mutex_;         // guards what follows
  bool has_memory_ = false;  // for this batch
  NumberType type_ = {};     // of all inputs of this batch
  std::vector<std::int64_t> shape_;
  at::Tensor memory_;  // [places, ...]
};

}  // namespace ddp::worker
