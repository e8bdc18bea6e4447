// A moving average of the weights, which often tests better than the weights themselves.
// It covers trainable parameters. Running statistics of norm layers are buffers: evaluation with
// the average uses the model's.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/model/named_tensor.h"

namespace ddp::worker {

class Ema {
 public:
  /// Starts at the values of `weights`. It is kept in float32 at least: near the end of training a
  /// step of the average is smaller than the last bit of a low type.
  Ema(const std::vector<NamedTensor>& weights, double decay);

  /// average = decay * average + (1 - decay) * weight. After each optimizer step; a skipped step is
  /// one too, as with torch.optim.swa_utils. `weights` as in the constructor, or float32 masters
  /// of them.
  void update(const std::vector<at::Tensor>& weights);

  /// By the parameter's name. They share memory with this object.
  [[nodiscard]] const std::vector<NamedTensor>& averages() const { return averages_; }

 private:
  std::vector<NamedTensor> averages_;
  double decay_;
};

/// Puts the averages into the model for as long as it lives, for evaluation; then the weights come
/// back, bit for bit. Nothing may step or be saved meanwhile. Costs a copy of the weights.
class EmaSwap {
 public:
  /// Does nothing without an average. Both outlive it.
  EmaSwap(const Ema* ema, const std::vector<NamedTensor>& parameters);
  EmaSwap(const EmaSwap&) = delete;
  EmaSwap& operator=(const EmaSwap&) = delete;
  ~EmaSwap();

 private:
  std::vector<at::Tensor> weights_;  // the model's own
  std::vector<at::Tensor> saved_;
};

}  // namespace ddp::worker
