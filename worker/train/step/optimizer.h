// Everything that an optimizer step does around its update rule: unscale gradients or check that
// they are finite, clip, step, update loss scale and average. Does not wait for the device. Traps:
// a list holds tensors of one dtype. Rules run on detached parameters, without autograd.
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

/// Facts about a model beside its trainable parameters.
struct ModelFacts {
  std::vector<NamedTensor> buffers{};          // for the average
  std::vector<std::string> norm_parameters{};  // names, of norm layers: for the decay
};

class Optimizer {
 public:
  /// For the parameters of `replica`; `replica` and `precision` outlive this object. Without
  /// `facts` the average has no buffers, and of norms and biases only the biases are known; without
  /// `rule` the built-in rule of the job's name is used.
  /// Errors: UsageError when a pattern of lr_factors matches no trainable parameter.
  Optimizer(const OptimizerJob& job,
            Ddp& replica,
            Precision& precision,
            const ModelFacts& facts = {},
            std::unique_ptr<UpdateRule> rule = nullptr);

  /// Does one step at these rates with the current gradients. A parameter without a gradient keeps
  /// its value and its state. With a loss scale or `skips_non_finite`, a step whose gradients are
  /// not finite changes neither parameters nor their state; with the latter, not the average
  /// either.
  void step(const StepRates& rates);

  /// Releases the gradients that the lists of the last step hold, so that their memory is free for
  /// those of the next step.
  void release_gradients() { plan_ = Plan(); }

  /// All state that a checkpoint needs, sharing memory with this object: the rule's (SGD's momentum
  /// under the parameter's own name; Adam's NAME.exp_avg, NAME.exp_avg_sq and NAME.step);
  /// NAME.master; the state of average and loss scale; the counts of skipped steps.
  [[nodiscard]] std::vector<NamedTensor> state() const;

  /// The part of state() that is equal on all ranks: all but the averages of buffers.
  [[nodiscard]] std::vector<NamedTensor> replicated_state() const;

  /// The moving average of the model; null when the job has none.
  [[nodiscard]] const Ema* ema() const { return ema_ ? &*ema_ : nullptr; }

  /// The check of `skips_non_finite`; null without it.
  [[nodiscard]] const FiniteCheck* finite_check() const {
    return finite_check_ ? &*finite_check_ : nullptr;
  }

  /// How often the lists of tensors were built: again only when the gradients are other tensors.
  [[nodiscard]] std::int64_t list_builds() const { return list_builds_; }

 private:
  // One parameter and its state; tensors that the job does not need are undefined.
  struct Slot {
    std::string name;
    at::Tensor weight;           // the model's
    at::Tensor target;           // what the rule steps: the weight, or its float32 master
    at::Tensor master_gradient;  // float32
    std::vector<at::Tensor> state;
  };

  // The parameters of one call of the rule: one dtype, rate and decay.
  struct ParameterGroup {
    at::ScalarType type;
    double weight_decay;
    double lr_factor;
    bool has_bias_rate;
    std::vector<std::size_t> members{};  // of slots_
  };

  // Everything that a step hands to the rule, for one set of gradients. Keeps these alive, so that
  // an equal address means the same tensor.
  struct Plan {
    std::vector<at::Tensor> gradients{};             // of the parameters, where there is one
    std::vector<UpdateLists> calls{};                // by group
    std::vector<std::vector<at::Tensor>> by_call{};  // their gradients
    std::vector<at::Tensor> all{};                   // these in one list
    std::vector<at::Tensor> low{};                   // gradients that are widened first
    std::vector<at::Tensor> wide{};                  // into these
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
  std::vector<UpdateRule::State> state_;  // of the rule
  std::vector<Slot> slots_;               // in the order of the parameters
  std::vector<ParameterGroup> groups_;
  at::Tensor device_rates_;              // [groups] of float32; undefined on the CPU
  std::vector<double> sent_rates_;       // what is in it
  std::vector<at::Tensor> low_weights_;  // those with masters
  std::vector<at::Tensor> masters_;
  std::optional<Ema> ema_;
  std::optional<FiniteCheck> finite_check_;
  Plan plan_;
  std::int64_t list_builds_ = 0;
};

/// Scales `gradients` down so that the norm of all of them together is at most `limit`. No host
/// sync. Source: Pascanu et al., arXiv:1211.5063, algorithm 1; the 1e-6 as in
/// torch.nn.utils.clip_grad_norm_.
void clip_norm(const std::vector<at::Tensor>& gradients, double limit);

}  // namespace ddp::worker
