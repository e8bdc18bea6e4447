// One model on several devices of one process: the batch is split over replicas, the scores come
// back together, so the loss sees the whole batch. DataParallel of the field.
// Weights travel to every device each step and gradients come back to one: on several GPUs one
// process per device (Ddp) is faster; this is for programs that must be one process.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "worker/model/image_model.h"

namespace ddp::worker {

class DataParallel {
 public:
  /// `replicas` are models of the same kind, each on the device on which it computes. The first is
  /// trained and saved; each forward() copies its weights and buffers to the others. Scores come to
  /// `output`. Every graph that is alive shares ownership of the replicas.
  DataParallel(std::vector<Model> replicas, at::Device output);

  /// Shapes: x [B, C, H, W], split by at::chunk, so the last part may be smaller and a replica may
  /// have none; gives [B, classes]. Gradients go to the first replica's parameters, whose mode
  /// (training or evaluation) is that of all. Norm layers see their replica's part alone, and the
  /// running statistics are those of the first, as in torch.nn.DataParallel.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const;

 private:
  std::shared_ptr<const std::vector<Model>> replicas_;
  at::Device output_;
};

}  // namespace ddp::worker
