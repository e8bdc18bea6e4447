// A task: a model, its loss, and how good it is. The training loop knows no more than this.
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

/// The value of an evaluation that decides which checkpoint is best, unless the job names another.
struct Watched {
  std::string name = "loss";
  bool is_higher_better = false;
};

/// A batch that a task may draw.
struct ShownBatch {
  std::string name;                  // start of the pictures' names: "train_batch0"
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

  /// The module that is trained and saved. Its tensors' names are used in checkpoints and in
  /// weights files.
  virtual torch::nn::Module& model() = 0;

  /// Returns the batch to train on in place of `batch`, which is on the model's device: images of
  /// another size, say. `seed` is that of the run's step: the same on all ranks, in all micro-steps
  /// of the step, and after a resume. Must be cheap, and not wait for the device.
  virtual Batch vary(const Batch& batch, std::uint64_t /*seed*/) { return batch; }

  /// `batch` and the outputs are on the model's device, except with `parallel: data`.
  virtual Outputs forward(const Batch& batch) = 0;

  /// The loss of outputs that forward() gave for this batch, in float32 at least.
  virtual Loss loss(const Outputs& outputs, const Batch& batch) = 0;
  /// The loss of an evaluation, if it differs (no label smoothing).
  virtual Loss test_loss(const Outputs& outputs, const Batch& batch) {
    return loss(outputs, batch);
  }

  /// Sums over the batch's samples, shown as means over all samples of an epoch: {"accuracy",
  /// correct}. Must be cheap, and not wait for the device: it is called in each training step.
  /// Shapes: each [].
  virtual std::vector<NamedTensor> counts(const Outputs& /*outputs*/, const Batch& /*batch*/) {
    return {};
  }

  /// The model is not trained any more: parts that help training alone may go, if it is faster
  /// without them.
  virtual void fuse() {}

  /// A new metric for an evaluation; null: the means of counts().
  virtual std::unique_ptr<Metric> metric() { return nullptr; }

  /// Pictures for the run directory, of rank 0's first training batches and the first batch of each
  /// evaluation. Training waits meanwhile, so only what needs the batch itself is done at once.
  virtual Pictures pictures(const ShownBatch& /*shown*/) { return {}; }

  [[nodiscard]] virtual Watched watched() const { return {}; }
};

}  // namespace ddp::worker
