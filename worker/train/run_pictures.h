// Makes the pictures in the run directory, from data that rank 0 has anyway: labels, the first
// training batches, the first batch of an evaluation, and what the metrics draw.
#pragma once

#include <cstdint>
#include <memory>

#include "common/files/owned_dir.h"
#include "worker/data/source.h"
#include "worker/train/evaluation.h"
#include "worker/train/picture_writer.h"
#include "worker/train/step/forward.h"

namespace ddp::worker {

class RunPictures {
 public:
  /// For rank 0. `task`, `test` and `directory` outlive it.
  RunPictures(Task& task,
              std::shared_ptr<const Source> train,
              const DataFacts& test,
              const OwnedDir& directory)
      : task_(task), train_(std::move(train)), test_(test), writer_(directory) {}

  /// Draws the first micro-batch of a step; `steps` is how many were done before. Only the run's
  /// first steps are drawn. Blocks: while the batch is copied.
  void show_training(const Batch& batch, std::int64_t steps);
  void show_evaluation(const Pass& first);
  /// Call it after the metrics' merge(). Draws their pictures, and writes classes.json if a metric
  /// has results by class. `step` is that of the weights.
  void show_metrics(const Metrics& metrics, std::int64_t step);

 private:
  Task& task_;
  std::shared_ptr<const Source> train_;  // shared with the run; the drawing thread uses it
  const DataFacts& test_;
  PictureWriter writer_;  // declared last: it ends before the other members
};

}  // namespace ddp::worker
