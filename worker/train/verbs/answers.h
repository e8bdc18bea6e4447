// What predict says of images: the classes of each, or the objects in it.
#pragma once

#include <cstddef>

#include "worker/data/loading/batch.h"
#include "worker/task/task.h"

namespace ddp::worker {

inline constexpr std::size_t kLongestAnswer = 8192;  // of a line: a path may have 4096 bytes

class Answers {
 public:
  Answers() = default;
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  virtual ~Answers() = default;

  /// Says what `outputs` mean for each image of `batch`: a line, in their order. Returns how many
  /// of them could not be read again; each was named. Errors: UsageError for outputs that are none
  /// of such a task, and for files that cannot be written.
  virtual std::size_t print(const Batch& batch, const Outputs& outputs) = 0;
  /// After the last batch. Errors: UsageError.
  virtual void finish() {}
};

}  // namespace ddp::worker
