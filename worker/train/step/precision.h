// Applies the job's level of mixed precision (plan/amp): decides the types of the model's tensors,
// of images, scores and loss.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "worker/model/state.h"
#include "worker/plan/amp.h"
#include "worker/train/step/loss_scale.h"

namespace ddp::worker {

/// True for bf16 and fp16.
bool is_16_bit(at::ScalarType type);

/// torch.autocast for C++: a scope guard. While it exists, LibTorch computes convolutions and
/// matrix products in a 16-bit type, and losses and sums in float32. The C++ frontend of LibTorch
/// has no such class, only the functions that this one calls. Traps: the setting is per thread, so
/// the guard must be made and destroyed in the thread that runs forward. Cast weights are cached
/// until the outermost guard ends; it must end before the weights change, or the next forward would
/// use the old ones.
class Autocast {
 public:
  /// Does nothing without a `type`. Guards may be nested.
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
