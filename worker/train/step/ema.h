// An exponential moving average (EMA) of the model, which often evaluates better than the model
// itself. It covers trainable parameters and floating-point buffers, as timm's ModelEmaV3
// (timm/utils/model_ema.py) and ultralytics' ModelEMA (ultralytics/utils/torch_utils.py) do.
// Running statistics belong to the weights with which they were computed, so averaged weights need
// averaged statistics. Integer buffers (num_batches_tracked) are not averaged.
// Keys: optimizer.ema_decay, optimizer.ema_ramp (common/job/training_keys).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "worker/model/named_tensor.h"

namespace ddp::worker {

/// decay(n) = decay * (1 - exp(-n / ramp)) at update n, counted from 1; without a ramp (0) it is
/// `decay` from the first. Units: ramp in optimizer steps.
/// Source: ModelEMA of ultralytics, where a ramp is called tau.
struct EmaOptions {
  double decay = 0.9999;
  double ramp = 0;
};

class Ema {
 public:
  /// Averages `weights` and the floating-point `buffers`, starting at their values. `sources` are
  /// the tensors that the optimizer updates: the weights themselves, or their float32 masters. The
  /// averages are in float32 at least: near the end of training an average moves by less than the
  /// last bit of a 16-bit type. From now on all these tensors may only be changed in place, never
  /// replaced.
  Ema(const std::vector<NamedTensor>& weights,
      const std::vector<at::Tensor>& sources,
      const std::vector<NamedTensor>& buffers,
      const EmaOptions& options);

  /// average = decay * average + (1 - decay) * source. Call it after each optimizer step. Without
  /// `skipped`, a step that a loss scale skipped counts too, as with torch.optim.swa_utils. With
  /// `skipped` ([] of float32) the call changes nothing if that is 1. Does not wait for the device.
  void update(const std::optional<at::Tensor>& skipped = {});

  /// The averages by name, weights first. They share memory with this object.
  [[nodiscard]] const std::vector<NamedTensor>& averages() const { return averages_; }
  /// Only the averages of buffers, which differ between ranks as the buffers do.
  [[nodiscard]] std::vector<NamedTensor> buffer_averages() const;

  /// For checkpoints: NAME.ema, and ema.updates, the number of updates so far. replicated_state()
  /// is the part that is equal on all ranks: without averages of buffers.
  [[nodiscard]] std::vector<NamedTensor> state() const;
  [[nodiscard]] std::vector<NamedTensor> replicated_state() const;

 private:
  friend class EmaSwap;

  [[nodiscard]] std::vector<NamedTensor> named_state(std::size_t count) const;

  EmaOptions options_;
  std::size_t weights_;              // how many of the tensors below are weights
  std::vector<at::Tensor> model_;    // the model's tensors that are averaged
  std::vector<at::Tensor> sources_;  // where update() reads the new values
  std::vector<NamedTensor> averages_;
  std::vector<at::Tensor> averaged_;  // the same, without names
  bool has_other_types_ = false;      // some source differs in type from its average
  at::Tensor updates_;                // [] float64
};

/// A scope guard for evaluations: puts the averages into the model; the destructor restores the
/// model's own values, bit for bit. Do not train or save meanwhile. Costs a copy of the model. If
/// an exception ends the scope, a model on a device is not restored: the device may have failed, so
/// waiting for it could hang, and the model is not used again.
class EmaSwap {
 public:
  /// Does nothing if `ema` is null; else `ema` outlives it.
  explicit EmaSwap(const Ema* ema);
  EmaSwap(const EmaSwap&) = delete;
  EmaSwap& operator=(const EmaSwap&) = delete;
  ~EmaSwap();

 private:
  int exceptions_;                 // in flight at construction
  std::vector<at::Tensor> model_;  // the model's tensors
  std::vector<at::Tensor> saved_;
};

}  // namespace ddp::worker
