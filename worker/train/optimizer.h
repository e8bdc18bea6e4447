// Stochastic gradient descent by LibTorch's fused kernel, one call for all parameters.
// Traps: the kernel walks raw memory, so state has its parameter's strides; is_first_step stays
// false with zeroed buffers, which is the same result and needs no special first step after a
// resume.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/dist/ddp.h"
#include "worker/plan/job.h"

namespace ddp::worker {

class Sgd {
 public:
  Sgd(const OptimizerJob& job, Ddp& replica);

  /// One step at rate `lr` from the gradients that are there; these are clipped first when the job
  /// says so.
  void step(double lr);

  /// The momentum of every parameter, by the parameter's name; empty without momentum.
  [[nodiscard]] const std::vector<NamedTensor>& state() const { return momentum_; }

 private:
  OptimizerJob job_;
  Ddp& replica_;
  std::vector<NamedTensor> momentum_;
};

/// Scales `gradients` down so that the norm of all of them together is at most `limit`. No host
/// sync. Source: Pascanu et al., arXiv:1211.5063, algorithm 1; the 1e-6 as in
/// torch.nn.utils.clip_grad_norm_.
void clip_norm(const std::vector<at::Tensor>& gradients, double limit);

}  // namespace ddp::worker
