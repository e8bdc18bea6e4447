// torch.nn.DataParallel: one model on several devices of one process. The batch is split over
// replicas and their scores are joined again, so the loss sees the whole batch.
// Each step copies the weights to every device and the gradients back to one. One process per GPU
// (Ddp) is faster; this is for programs that must be a single process.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "worker/model/image_model.h"

namespace ddp::worker {

class DataParallel {
 public:
  /// `replicas` are models of the same kind, each on the device on which it computes. The first is
  /// trained and saved; each forward() copies its weights and buffers to the others. Scores are
  /// moved to `output`. Every autograd graph that still exists shares ownership of the replicas.
  DataParallel(std::vector<Model> replicas, at::Device output);

  /// Shapes: x [B, C, H, W], split by at::chunk, so the last part may be smaller and a replica may
  /// get none; returns [B, classes]. Gradients go to the first replica's parameters; all replicas
  /// have its mode (training or evaluation). Norm layers normalise over their replica's part, and
  /// the first one's running statistics are kept, as in torch.nn.DataParallel.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const;

 private:
  std::shared_ptr<const std::vector<Model>> replicas_;
  at::Device output_;
};

}  // namespace ddp::worker
