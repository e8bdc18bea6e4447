// A layer of a model from Python (python_model) in LibTorch's tree of modules.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <utility>

namespace ddp::worker {

/// Holds the layer's tensors. Its computation is in the file.
struct PythonLayer : torch::nn::Module {
  explicit PythonLayer(std::string name_in_python) : class_name(std::move(name_in_python)) {}

  std::string class_name;  // "BatchNorm2d"
};

}  // namespace ddp::worker
