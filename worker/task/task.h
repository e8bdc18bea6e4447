// What is learned: a model, its loss, and how good it is. The training loop knows no more than
// this.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/data/loading/batch.h"
#include "worker/data/source.h"
#include "worker/task/loss.h"
#include "worker/task/metric.h"

namespace ddp::worker {

/// The number of an evaluation that decides which checkpoint is best, unless the job says another.
struct Watched {
  std::string name = "loss";
  bool is_higher_better = false;
};

/// A batch of which a task may make pictures.
struct ShownBatch {
  std::string name;                  // what their names begin with: "train_batch0"
  const Batch& batch;                // as the model got it
  const Outputs* outputs = nullptr;  // of an evaluation; null: of training, and not shown
  const DataFacts& data;             // of the set that the batch is from
};

class Task {
 public:
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;

  /// What is trained and saved. Its tensors' names are those of checkpoints and of users' weights.
  virtual torch::nn::Module& model() = 0;

  /// What is trained on in place of `batch`, which is on the model's device: images of another
  /// size, say. `seed` is that of the run's step: the same on all ranks, in all of its micro-steps,
  /// and after a resume. Cheap, and without waiting for the device.
  virtual Batch vary(const Batch& batch, std::uint64_t /*seed*/) { return batch; }

  /// `batch` and what comes out are on the model's device, but see `parallel: data`.
  virtual Outputs forward(const Batch& batch) = 0;

  /// Of outputs that forward() gave for this batch, in float32 at least.
  virtual Loss loss(const Outputs& outputs, const Batch& batch) = 0;
  /// The loss of an evaluation, where it differs (without label smoothing).
  virtual Loss test_loss(const Outputs& outputs, const Batch& batch) {
    return loss(outputs, batch);
  }

  /// Sums over the batch's samples, shown as means over all samples of an epoch: {"accuracy",
  /// correct}. Cheap, and without waiting for the device: it is called in each training step.
  /// Shapes: each [].
  virtual std::vector<NamedTensor> counts(const Outputs& /*outputs*/, const Batch& /*batch*/) {
    return {};
  }

  /// The model is not trained any more: what helps training alone may go, where it is then faster.
  virtual void fuse() {}

  /// Of an evaluation; null: the means of counts().
  virtual std::unique_ptr<Metric> metric() { return nullptr; }

  /// For the run directory, of rank 0's first training batches and the first one of each
  /// evaluation. Training waits meanwhile: only what needs the batch itself is done at once.
  virtual Pictures pictures(const ShownBatch& /*shown*/) { return {}; }

  [[nodiscard]] virtual Watched watched() const { return {}; }
};

}  // namespace ddp::worker
