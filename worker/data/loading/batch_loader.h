// Gives batches to training and evaluations. Implementations: Loader, and ResidentLoader for sets
// on the device.
// Promises: a batch depends only on its indices and epoch, byte for byte, and on nothing that was
// loaded before.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "worker/data/loading/batch.h"
#include "worker/data/source.h"
#include "worker/plan/partition.h"

namespace ddp::worker {

class BatchLoader {
 public:
  BatchLoader() = default;
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  virtual ~BatchLoader() = default;

  /// Loads one batch, in the calling thread. Errors: those of the source; UsageError for inputs or
  /// targets of different shapes.
  [[nodiscard]] virtual Batch load(std::span<const std::int64_t> indices,
                                   std::int64_t epoch) const = 0;
  [[nodiscard]] Batch load(std::span<const std::int64_t> indices) const { return load(indices, 0); }

  /// From now on next() returns the batches that `plans` names, until `plans` returns no value. One
  /// thread at a time calls `plans`, perhaps ahead of next(). Batches that were loaded ahead for
  /// earlier plans are dropped.
  using NextMicroBatch = std::function<std::optional<MicroBatch>()>;
  virtual void start(NextMicroBatch plans) = 0;
  /// Blocks: until the batch is loaded. Errors: as load(); std::logic_error beyond the last plan.
  [[nodiscard]] virtual Batch next() = 0;

  [[nodiscard]] virtual const DataFacts& facts() const = 0;
  /// How long next() has taken so far.
  [[nodiscard]] virtual std::chrono::nanoseconds waited() const = 0;

  /// Bad samples by index, and why they are bad: those in batches of next() since
  /// take_bad_samples() was called last.
  using Bad = std::map<std::int64_t, std::string>;
  [[nodiscard]] virtual std::size_t bad_count() const = 0;
  [[nodiscard]] virtual Bad take_bad_samples() = 0;
};

}  // namespace ddp::worker
