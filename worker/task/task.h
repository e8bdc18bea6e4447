// A task: a model, its loss and its metric. It is all that the training loop knows of them.
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

/// The value of an evaluation that decides which checkpoint is best, unless the job names one.
struct MonitoredMetric {
  std::string name = "loss";
  bool is_higher_better = false;
};

/// A batch for Task::pictures().
struct ShownBatch {
  std::string name;                  // prefix of the pictures' names: "train_batch0"
  const Batch& batch;                // as the model gets it
  const Outputs* outputs = nullptr;  // of an evaluation; null: a training batch
  const DataFacts& data;             // of the batch's data set
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

  /// May return another batch to train on, for example with resized images; `batch` is on the
  /// model's device. `seed` depends on the step: it is the same on all ranks, in all micro-steps of
  /// the step, and after a resume. Must be cheap, and not wait for the device.
  virtual Batch transform_batch(const Batch& batch, std::uint64_t /*seed*/) { return batch; }

  /// Batch and outputs are on the model's device, except with `parallel: data`.
  virtual Outputs forward(const Batch& batch) = 0;

  /// The loss; `outputs` are those of forward() for this batch, in float32 at least.
  virtual Loss loss(const Outputs& outputs, const Batch& batch) = 0;
  /// The loss in an evaluation, if it differs (no label smoothing).
  virtual Loss test_loss(const Outputs& outputs, const Batch& batch) {
    return loss(outputs, batch);
  }

  /// Sums over the batch's samples, shown as means over all samples of an epoch: {"accuracy",
  /// correct}. Must be cheap, and not wait for the device: it is called in each training step.
  /// Shapes: each [].
  virtual std::vector<NamedTensor> counts(const Outputs& /*outputs*/, const Batch& /*batch*/) {
    return {};
  }

  /// Called when the model will not be trained any more: it may simplify the model for evaluations,
  /// if that makes it faster.
  virtual void fuse() {}

  /// A new metric for an evaluation; null: the means of counts().
  virtual std::unique_ptr<Metric> metric() { return nullptr; }

  /// Pictures for the run directory, of rank 0's first training batches and each evaluation's first
  /// batch. Training waits for this call: copy what is needed of the batch, and draw later.
  virtual Pictures pictures(const ShownBatch& /*shown*/) { return {}; }

  [[nodiscard]] virtual MonitoredMetric monitored() const { return {}; }
};

}  // namespace ddp::worker
