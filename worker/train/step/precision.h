// The numbers in which a job computes: how its level of mixed precision (plan/amp) is applied to
// model, images, scores and loss.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "worker/model/state.h"
#include "worker/plan/amp.h"
#include "worker/train/step/loss_scale.h"

namespace ddp::worker {

/// bf16 and fp16.
bool is_low(at::ScalarType type);

/// A guard that turns autocast on while it lives: LibTorch then computes convolutions and matrix
/// products in a low type, and losses and sums in float32. A Python user has torch.autocast; the
/// C++ frontend leaves these calls to us. Traps: the setting belongs to the thread, so the guard
/// must live in the thread that runs forward, and be destroyed there. Weights that were cast are
/// cached until the outermost guard ends; it must end before the weights change, or the next
/// forward would use the old ones.
class Autocast {
 public:
  /// Does nothing without a type. Guards may be nested.
  Autocast(c10::DeviceType device, std::optional<c10::ScalarType> type);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  c10::DeviceType device_;
  bool is_on_;
  bool was_enabled_ = false;
  c10::ScalarType old_type_ = c10::ScalarType::Undefined;
};

class Precision {
 public:
  /// Precondition: amp_problems() has none for this device.
  Precision(const AmpJob& job, at::Device device);

  /// Casts weights and buffers as the level says; layouts stay. Call before Ddp and the optimizer
  /// are made: both hold on to the tensors. Integer buffers (num_batches_tracked) are left alone.
  /// Norms that stay float32 are ours and torch::nn's (model/norm); on CUDA its LayerNorm and
  /// GroupNorm do not, as their kernels take one type alone there.
  void prepare(torch::nn::Module& model) const;

  /// A guard for a forward pass and its loss. Does nothing except at O1.
  [[nodiscard]] Autocast autocast() const;

  /// Casts images to the type of the weights: at O2 and O3 the low one.
  [[nodiscard]] at::Tensor input(const at::Tensor& images) const;

  /// Casts scores for the loss to float32 at least: a sum over classes in a low type loses digits.
  [[nodiscard]] at::Tensor output(const at::Tensor& scores) const;

  /// What backward starts from: `loss` itself without a loss scale.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;

  /// Whether the optimizer steps float32 copies of low weights.
  [[nodiscard]] bool has_masters() const { return plan_.masters; }

  /// Null without a loss scale.
  [[nodiscard]] LossScale* loss_scale() { return loss_scale_ ? &*loss_scale_ : nullptr; }

 private:
  AmpPlan plan_;
  at::Device device_;
  at::ScalarType low_;
  std::optional<LossScale> loss_scale_;
};

}  // namespace ddp::worker
