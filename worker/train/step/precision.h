// Applies the job's level of mixed precision (plan/amp): decides the types of the model's tensors,
// of images, scores and loss.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "worker/model/autocast.h"
#include "worker/model/state.h"
#include "worker/plan/amp.h"
#include "worker/train/step/loss_scale.h"

namespace ddp::worker {

/// True for bf16 and fp16.
bool is_16_bit(at::ScalarType type);

class Precision {
 public:
  /// Precondition: amp_problems() has none for this device.
  Precision(const AmpJob& job, at::Device device);

  /// Casts weights and buffers as the level says, and keeps their layouts. Call it before Ddp and
  /// the optimizer are made, which keep the tensors. Integer buffers (num_batches_tracked) are not
  /// cast. Norms that stay float32 are ours and torch::nn's (model/norm), but on CUDA not LayerNorm
  /// and GroupNorm: their kernels take one type only.
  void prepare(torch::nn::Module& model) const;

  /// A guard for a forward pass and its loss. Has an effect only at O1.
  [[nodiscard]] Autocast autocast() const;

  /// Casts images to the type of the weights, which at O2 and O3 is 16-bit.
  [[nodiscard]] at::Tensor input(const at::Tensor& images) const;

  /// Casts scores for the loss to float32 at least: a sum over classes in 16 bits loses digits.
  [[nodiscard]] at::Tensor output(const at::Tensor& scores) const;

  /// `loss` times the loss scale, if there is one.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;

  /// Whether the optimizer updates float32 copies of 16-bit weights.
  [[nodiscard]] bool has_masters() const { return plan_.masters; }

  /// Null without a loss scale.
  [[nodiscard]] LossScale* loss_scale() { return loss_scale_ ? &*loss_scale_ : nullptr; }

 private:
  AmpPlan plan_;
  at::Device device_;
  at::ScalarType type_16_bit_;
  std::optional<LossScale> loss_scale_;
};

}  // namespace ddp::worker
