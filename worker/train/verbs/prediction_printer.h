// What predict prints about images: the classes of each, or the objects in it.
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

  /// Prints what `outputs` mean for each image of `batch`: a line each, in their order. Returns how
  /// many images could not be read again; it has named each. Errors: UsageError for outputs that
  /// are not of such a task, and for files that cannot be written.
  virtual std::size_t print(const Batch& batch, const Outputs& outputs) = 0;
  /// Call it after the last batch. Errors: UsageError.
  virtual void finish() {}
};

}  // namespace ddp::worker
