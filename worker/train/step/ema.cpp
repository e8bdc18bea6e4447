#include "worker/train/step/ema.h"

#include <torch/torch.h>

#include <exception>

namespace ddp::worker {

Ema::Ema(const std::vector<NamedTensor>& weights,
         const std::vector<at::Tensor>& sources,
         const std::vector<NamedTensor>& buffers,
         const EmaOptions& options)
    : options_(options), weights_(weights.size()), sources_(sources) {
  std::vector<NamedTensor> all = weights;
  for (const NamedTensor& buffer : buffers) {
    if (!buffer.tensor.is_floating_point()) continue;
    all.push_back(buffer);
    sources_.push_back(buffer.tensor.detach());
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const at::Tensor own = all[i].tensor.detach();
    const at::ScalarType type = own.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    model_.push_back(own);
    averaged_.push_back(own.to(type, /*non_blocking=*/false, /*copy=*/true));
    averages_.push_back({all[i].name, averaged_.back()});
    has_other_types_ = has_other_types_ || sources_.at(i).scalar_type() != type;
  }
  updates_ = at::zeros({}, averaged_.at(0).options().dtype(at::kDouble));
}

void Ema::update(const std::optional<at::Tensor>& skipped) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> replaced;
  if (has_other_types_ || skipped) {
    const at::Tensor is_skipped = skipped ? skipped->ne(0) : at::Tensor();
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const at::Tensor source =
          sources_[i].to(averaged_[i].scalar_type());  // the same tensor if it has that type
      // For a skipped step the average itself is the source, so it does not move. A factor of 0
      // is not enough, because the statistics may be NaN.
      replaced.push_back(skipped ? at::where(is_skipped, averaged_[i], source) : source);
    }
  }
  const std::vector<at::Tensor>& now = replaced.empty() ? sources_ : replaced;
  updates_.add_(1);
  if (skipped) updates_.sub_(*skipped);
  if (options_.ramp == 0) {
    at::_foreach_lerp_(averaged_, now, 1 - options_.decay);
    return;
  }
  // The factor depends on the number of updates, which only the device knows.
  const at::Tensor share =
      1 - options_.decay * (1 - (-updates_ / options_.ramp).exp());  // [] float64
  const std::vector<at::Tensor> steps = at::_foreach_sub(now, averaged_);
  at::_foreach_mul_(steps, share.to(averaged_[0].scalar_type()));
  at::_foreach_add_(averaged_, steps);
}

std::vector<NamedTensor> Ema::buffer_averages() const {
  return {averages_.begin() + static_cast<std::ptrdiff_t>(weights_), averages_.end()};
}

std::vector<NamedTensor> Ema::state() const {
  return named_state(averages_.size());
}

std::vector<NamedTensor> Ema::replicated_state() const {
  return named_state(weights_);
}

std::vector<NamedTensor> Ema::named_state(std::size_t count) const {
  std::vector<NamedTensor> state;
  for (std::size_t i = 0; i < count; ++i)
    state.push_back({averages_[i].name + ".ema", averages_[i].tensor});
  state.push_back({"ema.updates", updates_});
  return state;
}

EmaSwap::EmaSwap(const Ema* ema) : exceptions_(std::uncaught_exceptions()) {
  if (ema == nullptr) return;
  const at::NoGradGuard no_grad;
  model_ = ema->model_;
  for (const at::Tensor& own : model_)
    saved_.push_back(own.clone());
  at::_foreach_copy_(model_, ema->averaged_);
}

EmaSwap::~EmaSwap() {
  if (model_.empty()) return;
  const bool is_on_device = !model_.front().is_cpu();
  if (is_on_device && std::uncaught_exceptions() > exceptions_) return;
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(model_, saved_);
}

}  // namespace ddp::worker
