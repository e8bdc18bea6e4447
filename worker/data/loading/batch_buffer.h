// One batch while it is put together, perhaps by several threads. The memory is used again for the
// next batch, once nobody holds the last one.
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
  /// `table` outlives it; null: bytes stay bytes. `layout` is that of pixels. `is_pinned`: copies
  /// to a GPU start from this memory, and LibTorch keeps it until they are done, so each batch gets
  /// new memory.
  BatchBuffer(const PixelTable* table, at::MemoryFormat layout, bool is_pinned = false)
      : table_(table), layout_(layout), is_pinned_(is_pinned) {}

  /// Starts a batch of so many samples. Keeps nothing of the last batch but its memory.
  void begin(std::size_t samples);

  /// Called by several threads at once, for each place once. Swaps the sample's targets with other
  /// ones, whose buffers may be used again. Errors: UsageError for an input unlike those of other
  /// places.
  void put(std::size_t place, Sample& sample);

  /// Call it once all samples are put. Leaves out places where nothing was put. Errors: UsageError
  /// for targets of different kinds.
  [[nodiscard]] Batch take();

 private:
  struct Place {
    bool is_there = false;
    std::int64_t index = 0;  // of the sample
    std::vector<Array> targets;
  };

  /// Memory for inputs like this one. Errors: UsageError.
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
