// Loss scaling: a factor on the loss that keeps small fp16 gradients from becoming 0. All state is
// on the device, which also decides whether a step overflowed, and the next scale; only the calls
// that return numbers wait for it.
// Gradients, and so overflows, are equal on every rank after the all-reduce, so the scale is, too,
// without another collective.
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

  /// `loss` times the scale.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;

  /// Divides the gradients of one step by the scale, in place. Returns 1 if any of them is not
  /// finite, else 0, as [] of float32, for the fused kernels; valid until the next call.
  /// Each list holds tensors of one dtype. Call once per step, with all gradients.
  const at::Tensor& unscale(const std::vector<std::vector<at::Tensor>>& gradients);

  /// Updates the scale by the result of the last unscale().
  void update();

  /// Scale, steps since its last change, and skipped steps. They share memory with this object.
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
