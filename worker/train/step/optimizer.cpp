#include "worker/train/step/optimizer.h"

#include <torch/torch.h>

#include <algorithm>
#include <set>
#include <string>

#include "worker/plan/name_pattern.h"

namespace ddp::worker {
namespace {

std::vector<double> lr_factors(const OptimizerJob& job,
                               const std::vector<NamedTensor>& parameters) {
  std::vector<std::string> names;
  for (const NamedTensor& parameter : parameters)
    names.push_back(parameter.name);
  std::vector<double> factors(names.size(), 1);
  for (const auto& [pattern, factor] : job.lr_factors) {
    for (const std::size_t i : find_matches("optimizer.lr_factors", pattern, names))
      factors[i] *= factor;
  }
  return factors;
}

// Decided by the name: bias, in_proj_bias of attention, bias_ih_l0 of recurrent layers.
bool is_bias(const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);
  return last == "bias" || last.ends_with("_bias") || last.starts_with("bias_");
}

}  // namespace

Optimizer::Optimizer(const OptimizerJob& job,
                     Ddp& replica,
                     Precision& precision,
                     const ModelFacts& facts,
                     std::unique_ptr<UpdateRule> rule)
    : job_(job),
      replica_(replica),
      precision_(precision),
      rule_(rule ? std::move(rule) : make_update_rule(job)),
      state_(rule_->state()) {
  const std::vector<NamedTensor>& parameters = replica_.parameters();
  const std::vector<double> factors = lr_factors(job_, parameters);
  const std::set<std::string> norms(facts.norm_parameters.begin(), facts.norm_parameters.end());
  std::vector<at::Tensor> targets;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, tensor] = parameters[i];
    const Slot& slot = slots_.emplace_back(make_slot(parameters[i]));
    targets.push_back(slot.target);
    if (slot.master_gradient.defined()) {
      weights_16_bit_.push_back(slot.weight);
      masters_.push_back(slot.target);
    }
    const bool decays = job_.decay_norms_and_biases || !(norms.contains(name) || is_bias(name));
    const bool has_bias_rate = job_.warms_up_biases && is_bias(name);
    add_to_group(
        i, {slot.target.scalar_type(), decays ? job_.weight_decay : 0, factors[i], has_bias_rate});
  }
  const at::Device device = targets.empty() ? at::Device(at::kCPU) : targets.front().device();
  if (!device.is_cpu()) {
    device_rates_ = at::empty({static_cast<std::int64_t>(groups_.size())},
                              at::device(device).dtype(at::kFloat));
  }
  if (job_.ema_decay) {
    ema_.emplace(parameters, targets, facts.buffers, EmaOptions{*job_.ema_decay, job_.ema_ramp});
  }
  if (job_.skips_non_finite) finite_check_.emplace(device);
}

Optimizer::Slot Optimizer::make_slot(const NamedTensor& parameter) const {
  Slot slot;
  slot.name = parameter.name;
  slot.weight = parameter.tensor.detach();
  slot.target = slot.weight;
  if (precision_.has_masters() && slot.weight.scalar_type() != at::kFloat) {
    slot.target = slot.weight.to(at::kFloat);
    slot.master_gradient = at::zeros_like(slot.target);
  }
  for (const UpdateRule::State& one : state_) {
    slot.state.push_back(one.is_number ? at::zeros({}, slot.target.options().dtype(at::kFloat))
                                       : at::zeros_like(slot.target));  // with its strides
  }
  return slot;
}

void Optimizer::add_to_group(std::size_t slot, const ParameterGroup& wanted) {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const ParameterGroup& group) {
    return group.type == wanted.type && group.weight_decay == wanted.weight_decay &&
           group.lr_factor == wanted.lr_factor && group.has_bias_rate == wanted.has_bias_rate;
  });
  ParameterGroup& group = found != groups_.end() ? *found : groups_.emplace_back(wanted);
  group.members.push_back(slot);
}

bool Optimizer::fits(const Plan& plan) const {
  const std::vector<NamedTensor>& parameters = replica_.parameters();
  if (plan.gradients.size() != parameters.size()) return false;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!parameters[i].tensor.grad().is_same(plan.gradients[i])) return false;
  return true;
}

Optimizer::Plan Optimizer::make_plan() const {
  Plan plan;
  plan.gradients = replica_.gradients();
  for (const ParameterGroup& group : groups_) {
    UpdateLists& lists = plan.calls.emplace_back();
    if (device_rates_.defined() && group.type != at::kDouble)
      lists.rate = device_rates_[static_cast<std::int64_t>(plan.calls.size() - 1)];
    lists.state.resize(state_.size());
    std::vector<at::Tensor>& gradients = plan.by_call.emplace_back();
    for (const std::size_t i : group.members) {
      const at::Tensor& gradient = plan.gradients[i];
      if (!gradient.defined()) continue;
      const Slot& slot = slots_[i];
      if (slot.master_gradient.defined()) {
        plan.gradients_16_bit.push_back(gradient);
        plan.gradients_float32.push_back(slot.master_gradient);
      }
      lists.parameters.push_back(slot.target);
      gradients.push_back(slot.master_gradient.defined() ? slot.master_gradient : gradient);
      for (std::size_t k = 0; k < state_.size(); ++k)
        lists.state[k].push_back(slot.state[k]);
    }
    lists.gradients = gradients;
    plan.all.insert(plan.all.end(), gradients.begin(), gradients.end());
  }
  return plan;
}

std::vector<double> Optimizer::rates_of_groups(const StepRates& rates) const {
  std::vector<double> own;
  for (const ParameterGroup& group : groups_) {
    const double rate = group.has_bias_rate ? rates.bias_lr.value_or(rates.lr) : rates.lr;
    own.push_back(rate * group.lr_factor);
  }
  return own;
}

/// Copies asynchronously, so the host memory must not change before the copy is done: it is new
/// each time.
void Optimizer::send_to_device(const std::vector<double>& rates) {
  const at::Tensor row =
      at::empty(device_rates_.sizes(), at::TensorOptions(at::kFloat).pinned_memory(true));
  std::transform(rates.begin(), rates.end(), row.data_ptr<float>(), [](double rate) {
    return static_cast<float>(rate);
  });
  device_rates_.copy_(row, /*non_blocking=*/true);
  sent_rates_ = rates;
}

std::optional<at::Tensor> Optimizer::find_overflow() {
  if (LossScale* const scale = precision_.loss_scale()) return scale->unscale(plan_.by_call);
  if (finite_check_) return finite_check_->check_gradients(plan_.by_call);
  return {};
}

void Optimizer::step(const StepRates& rates) {
  const at::NoGradGuard no_grad;
  if (!fits(plan_)) {
    plan_ = make_plan();
    ++list_builds_;
  }
  if (!plan_.gradients_16_bit.empty())
    at::_foreach_copy_(plan_.gradients_float32, plan_.gradients_16_bit);
  const std::optional<at::Tensor> found_inf = find_overflow();
  // If the norm is not finite this makes the gradients NaN, but then the rule skips the step.
  if (job_.clip_norm && !plan_.all.empty()) clip_norm(plan_.all, *job_.clip_norm);
  const std::vector<double> group_rates = rates_of_groups(rates);
  if (device_rates_.defined() && group_rates != sent_rates_) send_to_device(group_rates);
  for (std::size_t i = 0; i < plan_.calls.size(); ++i) {
    UpdateLists& lists = plan_.calls[i];
    if (lists.parameters.empty()) continue;
    lists.momentum = rates.momentum;
    if (found_inf) {
      rule_->step_unless(*found_inf, lists, group_rates[i], groups_[i].weight_decay);
    } else {
      rule_->step(lists, group_rates[i], groups_[i].weight_decay);
    }
  }
  if (!weights_16_bit_.empty()) at::_foreach_copy_(weights_16_bit_, masters_);
  if (ema_) ema_->update(finite_check_ ? found_inf : std::nullopt);
  if (finite_check_) finite_check_->count(*found_inf);
  if (LossScale* const scale = precision_.loss_scale()) scale->update();
}

std::vector<NamedTensor> Optimizer::state() const {
  return named_state(ema_ ? ema_->state() : std::vector<NamedTensor>{});
}

std::vector<NamedTensor> Optimizer::replicated_state() const {
  return named_state(ema_ ? ema_->replicated_state() : std::vector<NamedTensor>{});
}

std::vector<NamedTensor> Optimizer::named_state(const std::vector<NamedTensor>& averages) const {
  std::vector<NamedTensor> state;
  for (const Slot& slot : slots_) {
    for (std::size_t k = 0; k < state_.size(); ++k) {
      const std::string& name = state_[k].name;
      state.push_back({name.empty() ? slot.name : slot.name + "." + name, slot.state[k]});
    }
    if (slot.master_gradient.defined()) state.push_back({slot.name + ".master", slot.target});
  }
  const auto add = [&state](const std::vector<NamedTensor>& more) {
    state.insert(state.end(), more.begin(), more.end());
  };
  add(averages);
  if (const LossScale* const scale = precision_.loss_scale()) add(scale->state());
  if (finite_check_) add(finite_check_->state());
  return state;
}

void clip_norm(const std::vector<at::Tensor>& gradients, double limit) {
  const at::NoGradGuard no_grad;
  // Squares in 16 bits may overflow or vanish, so norms are computed in float32.
  const bool has_low = std::any_of(gradients.begin(), gradients.end(), [](const at::Tensor& one) {
    return is_16_bit(one.scalar_type());
  });
  const std::optional<at::ScalarType> type = has_low ? std::optional(at::kFloat) : std::nullopt;
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2, type)));
  at::_foreach_mul_(gradients, at::clamp_max(limit / (norm + 1e-6), 1.0));
}

}  // namespace ddp::worker
