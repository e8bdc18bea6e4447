// The update rule of an optimizer, which changes parameters by their gradients: SGD, Adam and AdamW
// with LibTorch's fused kernels, or a user's own rule. All else (masters, loss scale, clipping,
// averages, checkpoints) is done by Optimizer.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/plan/job.h"

namespace ddp::worker {

/// The arguments of one call of a rule: parameters with the same dtype, learning rate and weight
/// decay.
struct UpdateLists {
  std::vector<at::Tensor> parameters{};  // detached; never without a gradient
  std::vector<at::Tensor> gradients{};   // of the parameters, in their order
  // For each of UpdateRule::state(): one tensor per parameter, in their order.
  std::vector<std::vector<at::Tensor>> state{};
  std::optional<double> momentum{};  // only during warm-up: replaces the job's
  // The learning rate again, as [] of float32 on the device of the parameters; undefined on a CPU
  // and for float64. It is the same tensor in every step, so a captured CUDA graph can read it.
  at::Tensor rate{};
};

class UpdateRule {
 public:
  /// State that is kept for each parameter, zero at first.
  struct State {
    std::string name;        // in checkpoints PARAMETER.name; unique, and not "master" or "ema"
    bool is_number = false;  // [] of float32; else of the parameter's shape, strides and dtype
  };

  UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;
  virtual ~UpdateRule() = default;

  [[nodiscard]] virtual std::vector<State> state() const { return {}; }

  /// Changes parameters and state in place, the same on every rank. What it must remember of
  /// earlier steps has to be in the state, or a resume would lose it. Called without autograd. It
  /// may change the gradients.
  virtual void step(const UpdateLists& lists, double lr, double weight_decay) const = 0;

  /// As step(), but changes nothing if `found_inf` ([] of float32, on the device) is not 0. Must
  /// not wait for the device. This default copies parameters and state first.
  virtual void step_unless(const at::Tensor& found_inf,
                           const UpdateLists& lists,
                           double lr,
                           double weight_decay) const;
};

/// The rule of sgd, adam or adamw. Errors: std::logic_error for another name.
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerJob& job);

}  // namespace ddp::worker
