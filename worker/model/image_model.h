// The base class of all built-in models: images in, numbers out.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/model/state.h"

namespace ddp::worker {

/// An output of a model for which a loss is computed.
struct Head {
  std::string name;   // "" if it is the only one
  double factor = 1;  // of its loss in the model's
};

/// Shapes: forward takes [B, C, H, W] and returns [B, classes], unless it is a Detector.
class ImageModel : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor x) = 0;

  /// The scores of all heads for the loss: the first are those of forward(). Outside training mode
  /// there may be no others.
  virtual std::vector<at::Tensor> forward_heads(at::Tensor x) { return {forward(std::move(x))}; }
  /// What forward_heads() gives in training mode.
  [[nodiscard]] virtual std::vector<Head> heads() const { return {Head()}; }
  /// Whether a training step computes with buffers that steps change, other than a batch norm's:
  /// these must be equal on all ranks in each step.
  [[nodiscard]] virtual bool reads_changed_buffers() const { return false; }
  /// After so many passes with backward, further ones run the same code: a just-in-time compiler
  /// watches the first.
  [[nodiscard]] virtual int passes_until_steady() const { return 0; }
};

/// Shared by the module tree and its user, as torch::nn::Module requires.
using Model = std::shared_ptr<ImageModel>;

}  // namespace ddp::worker
