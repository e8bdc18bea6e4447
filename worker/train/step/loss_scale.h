// The factor on the loss that keeps small fp16 gradients from becoming 0. All of it lives on the
// device: whether a step overflowed, and the scale that follows, are decided there; only the calls
// that show numbers wait for the device.
// Gradients are the same on every rank after the all-reduce, an overflow too, so the scale is the
// same without a collective of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/model/named_tensor.h"
#include "worker/plan/amp.h"

namespace ddp::worker {

class LossScale {
 public:
  LossScale(const LossScaleRule& rule, at::Device device);

  /// `loss` times the scale: what backward starts from.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;

  /// Divides the gradients of one step by the scale, in place. Returns 1 if any of them is not
  /// finite, else 0, as [] of float32, for the fused kernels; valid until the next call.
  /// Each list holds tensors of one dtype. Call once per step, with all gradients.
  const at::Tensor& unscale(const std::vector<std::vector<at::Tensor>>& gradients);

  /// Moves the scale by what the last unscale() found.
  void update();

  /// Scale, steps since it last moved, and skipped steps. They share memory with this object.
  [[nodiscard]] std::vector<NamedTensor> state() const;

  /// Whether a step that overflowed makes the scale smaller.
  [[nodiscard]] bool is_dynamic() const { return rule_.backoff < 1; }

  /// Block: until the device has done all steps so far.
  [[nodiscard]] double value() const;
  [[nodiscard]] std::int64_t skipped_steps() const;

 private:
  LossScaleRule rule_;
  at::Tensor scale_;           // [] float32
  at::Tensor growth_tracker_;  // [] int32
  at::Tensor found_inf_;       // [] float32
  at::Tensor skipped_;         // [] float64
};

}  // namespace ddp::worker
