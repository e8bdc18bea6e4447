// A layer of a model from Python (script_model) in LibTorch's tree of modules.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <utility>

namespace ddp::worker {

/// Holds the layer's tensors. Its computation is in the script.
struct ScriptLayer : torch::nn::Module {
  explicit ScriptLayer(std::string name_in_python) : class_name(std::move(name_in_python)) {}

  std::string class_name;  // "BatchNorm2d"
};

}  // namespace ddp::worker
