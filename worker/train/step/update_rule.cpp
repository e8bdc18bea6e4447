#include "worker/train/step/update_rule.h"

#include <torch/torch.h>

#include <optional>
#include <stdexcept>

#include "worker/train/step/precision.h"

namespace ddp::worker {
namespace {

using MaybeTensor = std::optional<at::Tensor>;

std::vector<at::Tensor> to_float32(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> in_float32;
  for (const at::Tensor& one : tensors)
    in_float32.push_back(one.to(at::kFloat));
  return in_float32;
}

// Traps: the kernels walk raw memory, so state must have its parameter's strides. They get
// `found_inf` but no `grad_scale`, because gradients are unscaled and clipped before. On a device
// the rate is passed as a tensor, so that steps do not differ in any number of the host (except a
// momentum during its warm-up, for which the kernels take no tensor). On a CPU the kernels would
// read that tensor anyway, so the rate is passed as a number.
class Fused : public UpdateRule {
 public:
  void step(const UpdateLists& lists, double lr, double weight_decay) const override {
    run(lists, lr, weight_decay, {});
  }
  void step_unless(const at::Tensor& found_inf,
                   const UpdateLists& lists,
                   double lr,
                   double weight_decay) const override {
    run(lists, lr, weight_decay, found_inf);
  }

 protected:
  /// Calls `kernel` with the rate as a tensor where there is one, else as a number.
  template <typename Kernel>
  static void with_rate(const UpdateLists& lists, double lr, const Kernel& kernel) {
    if (lists.rate.defined())
      kernel(lists.rate);
    else
      kernel(lr);
  }

 private:
  virtual void run(const UpdateLists& lists,
                   double lr,
                   double weight_decay,
                   const MaybeTensor& found_inf) const = 0;
};

class Sgd : public Fused {
 public:
  explicit Sgd(const OptimizerJob& job) : momentum_(job.momentum), nesterov_(job.nesterov) {}

  std::vector<State> state() const override {
    if (momentum_ == 0) return {};
    return {{""}};
  }

 private:
  void run(const UpdateLists& lists,
           double lr,
           double weight_decay,
           const MaybeTensor& found_inf) const override {
    const std::vector<at::Tensor> none;
    const std::vector<at::Tensor>& momentum = lists.state.empty() ? none : lists.state[0];
    const at::Tensor& first = lists.parameters[0];
    // Trap: on a CPU, torch 2.11's _fused_sgd_ does not write 16-bit weights back: only the
    // elements after the last full vector change. So this updates float32 copies of such weights.
    if (is_16_bit(first.scalar_type()) && first.is_cpu()) {
      UpdateLists in_float32{to_float32(lists.parameters), to_float32(lists.gradients)};
      if (!momentum.empty()) in_float32.state.push_back(to_float32(momentum));
      in_float32.momentum = lists.momentum;
      run(in_float32, lr, weight_decay, found_inf);
      at::_foreach_copy_(lists.parameters, in_float32.parameters);
      if (!momentum.empty()) at::_foreach_copy_(momentum, in_float32.state[0]);
      return;
    }
    // Trap: is_first_step=true with an overflow would leave momentum uninitialised. Zeros with
    // is_first_step=false give the same first step.
    with_rate(lists, lr, [&](const auto& rate) {
      at::_fused_sgd_(lists.parameters,
                      lists.gradients,
                      momentum,
                      weight_decay,
                      momentum.empty() ? 0 : lists.momentum.value_or(momentum_),
                      rate,
                      /*dampening=*/0.0,
                      nesterov_,
                      /*maximize=*/false,
                      /*is_first_step=*/false,
                      /*grad_scale=*/{},
                      found_inf);
    });
  }

  double momentum_;
  bool nesterov_;
};

class Adam : public Fused {
 public:
  explicit Adam(const OptimizerJob& job)
      : is_decoupled_(job.name == OptimizerJob::Name::adamw),
        beta1_(job.beta1),
        beta2_(job.beta2),
        eps_(job.eps) {}

  std::vector<State> state() const override {
    return {{"exp_avg"}, {"exp_avg_sq"}, {"step", true}};
  }

 private:
  void run(const UpdateLists& lists,
           double lr,
           double weight_decay,
           const MaybeTensor& found_inf) const override {
    const std::vector<at::Tensor>& steps = lists.state[2];
    // The kernels need the number of this step, from 1; a skipped step is subtracted again below.
    // Trap: a single tensor would convert to a TensorList of its elements.
    at::_foreach_add_(steps, 1);
    const auto kernel = [&](auto&& fused) {
      with_rate(lists, lr, [&](const auto& rate) {
        fused(lists.parameters,
              lists.gradients,
              lists.state[0],
              lists.state[1],
              /*max_exp_avg_sqs=*/at::TensorList(),
              steps,
              rate,
              beta1_,
              beta2_,
              weight_decay,
              eps_,
              /*amsgrad=*/false,
              /*maximize=*/false,
              /*grad_scale=*/MaybeTensor(),
              found_inf);
      });
    };
    if (is_decoupled_) {
      kernel([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
    } else {
      kernel([](const auto&... arguments) { at::_fused_adam_(arguments...); });
    }
    if (found_inf) at::_foreach_sub_(steps, std::vector<at::Tensor>(steps.size(), *found_inf));
  }

  bool is_decoupled_;
  double beta1_;
  double beta2_;
  double eps_;
};

}  // namespace

void UpdateRule::step_unless(const at::Tensor& found_inf,
                             const UpdateLists& lists,
                             double lr,
                             double weight_decay) const {
  std::vector<at::Tensor> all = lists.parameters;
  for (const std::vector<at::Tensor>& one : lists.state)
    all.insert(all.end(), one.begin(), one.end());
  std::vector<at::Tensor> before;
  for (const at::Tensor& one : all)
    before.push_back(one.clone());
  step(lists, lr, weight_decay);
  const at::Tensor is_skipped = found_inf != 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].copy_(at::where(is_skipped, before[i], all[i]));
}

std::unique_ptr<UpdateRule> make_update_rule(const OptimizerJob& job) {
  switch (job.name) {
    case OptimizerJob::Name::sgd:
      return std::make_unique<Sgd>(job);
    case OptimizerJob::Name::adam:
    case OptimizerJob::Name::adamw:
      return std::make_unique<Adam>(job);
    case OptimizerJob::Name::registered:
      break;
  }
  throw std::logic_error("no built-in optimizer is called " + job.name_in_job);
}

}  // namespace ddp::worker
