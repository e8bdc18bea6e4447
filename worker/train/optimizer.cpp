#include "worker/train/optimizer.h"

#include <torch/torch.h>

namespace ddp::worker {

Sgd::Sgd(const OptimizerJob& job, Ddp& replica) : job_(job), replica_(replica) {
  if (job_.momentum == 0) return;
  for (const NamedTensor& parameter : replica_.parameters()) {
    momentum_.push_back({parameter.name, at::zeros_like(parameter.tensor.detach())});
  }
}

void Sgd::step(double lr) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = replica_.gradients();
  if (job_.clip_norm) clip_norm(gradients, *job_.clip_norm);
  std::vector<at::Tensor> parameters;
  for (const NamedTensor& parameter : replica_.parameters())
    parameters.push_back(parameter.tensor);
  std::vector<at::Tensor> momentum;
  for (const NamedTensor& buffer : momentum_)
    momentum.push_back(buffer.tensor);
  at::_fused_sgd_(parameters,
                  gradients,
                  momentum,
                  job_.weight_decay,
                  job_.momentum,
                  lr,
                  /*dampening=*/0.0,
                  job_.nesterov,
                  /*maximize=*/false,
                  /*is_first_step=*/false);
}

void clip_norm(const std::vector<at::Tensor>& gradients, double limit) {
  const at::NoGradGuard no_grad;
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)));
  at::_foreach_mul_(gradients, at::clamp_max(limit / (norm + 1e-6), 1.0));
}

}  // namespace ddp::worker
