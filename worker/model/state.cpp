#include "worker/model/state.h"

namespace ddp::worker {
namespace {

std::vector<NamedTensor> with_buffers(std::vector<NamedTensor> tensors,
                                      const torch::nn::Module& model) {
  for (const NamedTensor& buffer : buffers_of(model))
    tensors.push_back(buffer);
  return tensors;
}

}  // namespace

std::vector<NamedTensor> parameters_of(const torch::nn::Module& model) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : model.named_parameters())
    tensors.push_back({item.key(), item.value()});
  return tensors;
}

std::vector<NamedTensor> buffers_of(const torch::nn::Module& model) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : model.named_buffers())
    tensors.push_back({item.key(), item.value()});
  return tensors;
}

std::vector<NamedTensor> trainable_of(const torch::nn::Module& model) {
  std::vector<NamedTensor> tensors = parameters_of(model);
  std::erase_if(tensors, [](const NamedTensor& one) { return !one.tensor.requires_grad(); });
  return tensors;
}

std::vector<NamedTensor> frozen_of(const torch::nn::Module& model) {
  std::vector<NamedTensor> tensors = parameters_of(model);
  std::erase_if(tensors, [](const NamedTensor& one) { return one.tensor.requires_grad(); });
  return tensors;
}

std::vector<NamedTensor> without_gradient_of(const torch::nn::Module& model) {
  return with_buffers(frozen_of(model), model);
}

std::vector<NamedTensor> state_of(const torch::nn::Module& model) {
  return with_buffers(parameters_of(model), model);
}

}  // namespace ddp::worker
