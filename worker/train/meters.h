// Sums over samples that become means: of a step, of an epoch, of an evaluation. Plain doubles, so
// that they can be saved.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddp::worker {

struct Meter {
  double loss = 0;     // sum over samples
  double correct = 0;  // samples
  double count = 0;    // samples

  Meter& operator+=(const Meter& other) {
    loss += other.loss;
    correct += other.correct;
    count += other.count;
    return *this;
  }
  [[nodiscard]] double mean_loss() const { return count > 0 ? loss / count : 0; }
  [[nodiscard]] double accuracy() const { return count > 0 ? correct / count : 0; }
  bool operator==(const Meter&) const = default;
};

/// Of one batch. `loss` is its mean. Shapes: scores [B, classes], labels [B].
Meter measure(const at::Tensor& loss, const at::Tensor& scores, const at::Tensor& labels);

/// [3] of float64 and back, for sums over ranks and checkpoints.
at::Tensor to_tensor(const Meter& meter);
Meter to_meter(const at::Tensor& tensor);

}  // namespace ddp::worker
