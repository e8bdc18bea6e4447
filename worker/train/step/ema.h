// A moving average of the model, which often tests better than the model itself. It covers the
// whole model: trainable parameters, and buffers of floating point, as timm's ModelEmaV3
// (timm/utils/model_ema.py) and ultralytics' ModelEMA (ultralytics/utils/torch_utils.py) do.
// Running statistics belong to the weights they were taken with, so the averaged weights are
// evaluated with averaged ones. Buffers of integers (num_batches_tracked) stay the model's.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "worker/model/named_tensor.h"

namespace ddp::worker {

/// decay(n) = decay * (1 - exp(-n / ramp)) at update n, counted from 1; without a ramp (0) it is
/// `decay` from the first. Units: ramp in optimizer steps.
/// Source: ModelEMA of ultralytics, where a ramp is called tau.
struct EmaRule {
  double decay = 0.9999;
  double ramp = 0;
};

class Ema {
 public:
  /// Follows `weights` and those of `buffers` that are of floating point, and starts at their
  /// values. `sources` are the weights as the optimizer steps them: themselves, or float32 masters.
  /// The averages are kept in float32 at least: near the end of training a step of an average is
  /// smaller than the last bit of a low type. All these tensors must be changed in place from now
  /// on, never replaced.
  Ema(const std::vector<NamedTensor>& weights,
      const std::vector<at::Tensor>& sources,
      const std::vector<NamedTensor>& buffers,
      const EmaRule& rule);

  /// average = decay * average + (1 - decay) * now. Call it after each optimizer step. Without
  /// `skipped`, a step that a loss scale skipped counts too, as with torch.optim.swa_utils. With
  /// `skipped` ([] of float32) the call does nothing when that is 1. Does not wait for the device.
  void update(const std::optional<at::Tensor>& skipped = {});

  /// The averages by name, weights first. They share memory with this object.
  [[nodiscard]] const std::vector<NamedTensor>& averages() const { return averages_; }
  /// The averages of buffers alone: they differ between ranks as the buffers do.
  [[nodiscard]] std::vector<NamedTensor> buffer_averages() const;

  /// For checkpoints: NAME.ema, and ema.updates, the number of updates so far. replicated_state()
  /// is the part that is equal on all ranks: without averages of buffers.
  [[nodiscard]] std::vector<NamedTensor> state() const;
  [[nodiscard]] std::vector<NamedTensor> replicated_state() const;

 private:
  friend class EmaSwap;

  [[nodiscard]] std::vector<NamedTensor> named_state(std::size_t count) const;

  EmaRule rule_;
  std::size_t weights_;              // how many of the tensors below are weights
  std::vector<at::Tensor> model_;    // what the averages stand for: the model's own tensors
  std::vector<at::Tensor> sources_;  // what they follow
  std::vector<NamedTensor> averages_;
  std::vector<at::Tensor> averaged_;  // the same, without names
  bool has_other_types_ = false;      // between sources and their averages
  at::Tensor updates_;                // [] float64
};

/// While it lives, the model has the averages, for evaluation; its destructor restores the model's
/// own values, bit for bit. Nothing may step or be saved meanwhile. Costs a copy of the model. If
/// an exception ends it, it leaves a model on a device as it is: a device that has failed must not
/// be waited for, and the model is not used again.
class EmaSwap {
 public:
  /// Does nothing if `ema` is null; else `ema` outlives it.
  explicit EmaSwap(const Ema* ema);
  EmaSwap(const EmaSwap&) = delete;
  EmaSwap& operator=(const EmaSwap&) = delete;
  ~EmaSwap();

 private:
  int exceptions_;                 // under way at its start
  std::vector<at::Tensor> model_;  // the model's own
  std::vector<at::Tensor> saved_;
};

}  // namespace ddp::worker
