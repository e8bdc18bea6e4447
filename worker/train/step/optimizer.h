// An optimizer step with all that belongs to it: unscales gradients or checks that they are finite,
// clips them, applies the update rule, updates loss scale and moving average. Does not wait for the
// device. Traps: a list holds tensors of one dtype. Rules run on detached parameters, without
// autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/dist/ddp.h"
#include "worker/plan/job.h"
#include "worker/plan/schedule.h"
#include "worker/train/step/ema.h"
#include "worker/train/step/finite_check.h"
#include "worker/train/step/precision.h"
#include "worker/train/step/update_rule.h"

namespace ddp::worker {

/// What the optimizer must know of a model besides its trainable parameters.
struct ModelFacts {
  std::vector<NamedTensor> buffers{};          // for the moving average
  std::vector<std::string> norm_parameters{};  // names, of norm layers: for the weight decay
};

class Optimizer {
 public:
  /// For the parameters of `replica`; `replica` and `precision` outlive this object. Without
  /// `facts`, buffers are not averaged, and norms are not exempt from weight decay; without `rule`,
  /// the built-in rule with the job's optimizer name is used.
  /// Errors: UsageError when a pattern of lr_factors matches no trainable parameter.
  Optimizer(const OptimizerJob& job,
            Ddp& replica,
            Precision& precision,
            const ModelFacts& facts = {},
            std::unique_ptr<UpdateRule> rule = nullptr);

  /// Does one step with the current gradients. A parameter without a gradient keeps its value and
  /// its state. With a loss scale or `skips_non_finite`, a step whose gradients are not finite
  /// changes neither parameters nor their state; with `skips_non_finite` it does not change the
  /// average either.
  void step(const StepRates& rates);

  /// Releases the gradients of the last step, so that the next backward can reuse their memory.
  void release_gradients() { plan_ = Plan(); }

  /// All state that a checkpoint needs; shares memory with this object. It is the rule's state
  /// (SGD's momentum under the parameter's own name; Adam's NAME.exp_avg, NAME.exp_avg_sq and
  /// NAME.step); NAME.master; the state of average and loss scale; the counts of skipped steps.
  [[nodiscard]] std::vector<NamedTensor> state() const;

  /// The part of state() that is equal on all ranks: all but the averages of buffers.
  [[nodiscard]] std::vector<NamedTensor> replicated_state() const;

  /// The moving average of the model; null when the job has none.
  [[nodiscard]] const Ema* ema() const { return ema_ ? &*ema_ : nullptr; }

  /// The check of `skips_non_finite`; null without it.
  [[nodiscard]] const FiniteCheck* finite_check() const {
    return finite_check_ ? &*finite_check_ : nullptr;
  }

  /// For tests: how often the lists of tensors were built. They are reused as long as the gradients
  /// are the same tensors.
  [[nodiscard]] std::int64_t list_builds() const { return list_builds_; }

 private:
  // One parameter and its state; tensors that the job does not need are undefined.
  struct Slot {
    std::string name;
    at::Tensor weight;           // the model's
    at::Tensor target;           // what the rule updates: the weight, or its float32 master
    at::Tensor master_gradient;  // float32
    std::vector<at::Tensor> state;
  };

  // Parameters that share one call of the rule: the same dtype, rate and decay.
  struct ParameterGroup {
    at::ScalarType type;
    double weight_decay;
    double lr_factor;
    bool has_bias_rate;
    std::vector<std::size_t> members{};  // indices into slots_
  };

  // The arguments of the rule's calls, for one set of gradients. Keeps the gradients alive, so that
  // an equal address means the same tensor.
  struct Plan {
    std::vector<at::Tensor> gradients{};             // by parameter; undefined: none
    std::vector<UpdateLists> calls{};                // one for each group
    std::vector<std::vector<at::Tensor>> by_call{};  // the gradients of each call
    std::vector<at::Tensor> all{};                   // all of them in one list
    std::vector<at::Tensor> gradients_16_bit{};      // first copied ...
    std::vector<at::Tensor> gradients_float32{};     // ... to these
  };

  [[nodiscard]] Slot make_slot(const NamedTensor& parameter) const;
  void add_to_group(std::size_t slot, const ParameterGroup& wanted);
  [[nodiscard]] std::vector<double> rates_of_groups(const StepRates& rates) const;
  void send_to_device(const std::vector<double>& rates);
  [[nodiscard]] bool fits(const Plan& plan) const;
  [[nodiscard]] Plan make_plan() const;
  [[nodiscard]] std::optional<at::Tensor> find_overflow();
  [[nodiscard]] std::vector<NamedTensor> named_state(
      const std::vector<NamedTensor>& averages) const;

  OptimizerJob job_;
  Ddp& replica_;
  Precision& precision_;
  std::unique_ptr<UpdateRule> rule_;
  std::vector<UpdateRule::State> state_;  // rule_->state()
  std::vector<Slot> slots_;               // in the order of the parameters
  std::vector<ParameterGroup> groups_;
  at::Tensor device_rates_;                 // [groups] of float32; undefined on the CPU
  std::vector<double> sent_rates_;          // the values in device_rates_
  std::vector<at::Tensor> weights_16_bit_;  // weights with masters
  std::vector<at::Tensor> masters_;
  std::optional<Ema> ema_;
  std::optional<FiniteCheck> finite_check_;
  Plan plan_;
  std::int64_t list_builds_ = 0;
};

/// Scales `gradients` down so that the norm of all of them together is at most `limit`. Does not
/// wait for the device. Source: Pascanu et al., arXiv:1211.5063, algorithm 1; the 1e-6 as in
/// torch.nn.utils.clip_grad_norm_.
void clip_norm(const std::vector<at::Tensor>& gradients, double limit);

}  // namespace ddp::worker
