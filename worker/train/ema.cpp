#include "worker/train/ema.h"

#include <torch/torch.h>

namespace ddp::worker {
namespace {

std::vector<at::Tensor> detached_tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& one : named)
    tensors.push_back(one.tensor.detach());
  return tensors;
}

}  // namespace

Ema::Ema(const std::vector<NamedTensor>& weights, double decay) : decay_(decay) {
  for (const auto& [name, tensor] : weights) {
    const at::ScalarType type = tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    averages_.push_back({name, tensor.detach().to(type, /*non_blocking=*/false, /*copy=*/true)});
  }
}

void Ema::update(const std::vector<at::Tensor>& weights) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> averages = detached_tensors_of(averages_);
  std::vector<at::Tensor> wide;
  for (std::size_t i = 0; i < weights.size(); ++i)
    wide.push_back(weights[i].to(averages[i].scalar_type()));  // itself when it has the type
  at::_foreach_lerp_(averages, wide, 1 - decay_);
}

EmaSwap::EmaSwap(const Ema* ema, const std::vector<NamedTensor>& parameters) {
  if (ema == nullptr) return;
  const at::NoGradGuard no_grad;
  weights_ = detached_tensors_of(parameters);
  for (const at::Tensor& weight : weights_)
    saved_.push_back(weight.clone());
  at::_foreach_copy_(weights_, detached_tensors_of(ema->averages()));
}

EmaSwap::~EmaSwap() {
  if (weights_.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(weights_, saved_);
}

}  // namespace ddp::worker
