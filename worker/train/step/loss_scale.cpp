#include "worker/train/step/loss_scale.h"

#include <torch/torch.h>

namespace ddp::worker {

LossScale::LossScale(const LossScaleRule& rule, at::Device device)
    : rule_(rule),
      scale_(at::full({}, rule.start, at::device(device).dtype(at::kFloat))),
      growth_tracker_(at::zeros({}, at::device(device).dtype(at::kInt))),
      found_inf_(at::zeros({}, at::device(device).dtype(at::kFloat))),
      skipped_(at::zeros({}, at::device(device).dtype(at::kDouble))) {}

at::Tensor LossScale::scale(const at::Tensor& loss) const {
  return loss * scale_;
}

const at::Tensor& LossScale::unscale(const std::vector<std::vector<at::Tensor>>& gradients) {
  const at::NoGradGuard no_grad;
  const at::Tensor inverse = scale_.reciprocal();
  found_inf_.zero_();
  for (const std::vector<at::Tensor>& list : gradients) {
    // Trap: the fused kernels skip a step only if found_inf is exactly 1, so it must not be summed
    // over lists. The check writes 1 into the same tensor for all lists.
    if (!list.empty()) at::_amp_foreach_non_finite_check_and_unscale_(list, found_inf_, inverse);
  }
  return found_inf_;
}

void LossScale::update() {
  const at::NoGradGuard no_grad;
  at::_amp_update_scale_(
      scale_, growth_tracker_, found_inf_, rule_.growth, rule_.backoff, rule_.interval);
  skipped_.add_(found_inf_);
}

std::vector<NamedTensor> LossScale::state() const {
  return {{"loss_scale", scale_},
          {"loss_scale.growth_tracker", growth_tracker_},
          {"loss_scale.skipped_steps", skipped_}};
}

double LossScale::value() const {
  return scale_.item<double>();
}

std::int64_t LossScale::skipped_steps() const {
  return static_cast<std::int64_t>(skipped_.item<double>());
}

}  // namespace ddp::worker
