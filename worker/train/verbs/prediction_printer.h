// The interface by which predict prints classes, or objects.
#pragma once

#include <cstddef>

#include "worker/data/loading/batch.h"
#include "worker/task/task.h"

namespace ddp::worker {

inline constexpr std::size_t kMaxLineBytes = 8192;  // a path may have 4096

class PredictionPrinter {
 public:
  PredictionPrinter() = default;
  PredictionPrinter(const PredictionPrinter&) = delete;
  PredictionPrinter& operator=(const PredictionPrinter&) = delete;
  virtual ~PredictionPrinter() = default;

  /// Prints a line for each image of `batch`, in their order, from the model's `outputs`. Returns
  /// how many images could not be read again, after reporting each. Errors: UsageError for outputs
  /// of another task, and for files that cannot be written.
  virtual std::size_t print(const Batch& batch, const Outputs& outputs) = 0;
  /// Call it after the last batch. Errors: UsageError.
  virtual void finish() {}
};

}  // namespace ddp::worker
