// An optimizer on parameters without a model, in a world of one: tests write the gradients.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/dist/single_process_group.h"
#include "worker/train/step/optimizer.h"

namespace ddp::worker::test {

constexpr float kInf = std::numeric_limits<float>::infinity();
inline const AmpJob kExact{};
inline const AmpJob kScaled{1, AmpJob::Type::fp16, {}, {}};   // float32 weights, dynamic scale
inline const AmpJob kMasters{2, AmpJob::Type::fp16, {}, {}};  // float32 masters of float16 weights

class Bench {
 public:
  explicit Bench(at::ScalarType type = at::kFloat, const AmpJob& amp = kExact)
      : precision_(amp, at::kCPU),
        group_(single_process_group()),
        replica_(request(type), *group_) {}

  Optimizer make(const OptimizerJob& job,
                 const ModelFacts& facts = {},
                 std::unique_ptr<UpdateRule> rule = nullptr) {
    return Optimizer(job, replica_, precision_, facts, std::move(rule));
  }
  Precision& precision() { return precision_; }
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return replica_.parameters(); }

  /// Gradients of this step, of the parameters' type, times the loss scale: so small that they
  /// are finite in float16.
  void draw_gradients(std::uint64_t seed) {
    torch::manual_seed(seed);
    for (const NamedTensor& one : parameters())
      set_gradient(one, torch::randn(one.tensor.sizes()) / 64);
  }
  void fill_gradients(float value) {
    for (const NamedTensor& one : parameters())
      set_gradient(one, torch::full(one.tensor.sizes(), value));
  }

 private:
  static DdpRequest request(at::ScalarType type) {
    torch::manual_seed(3);
    DdpRequest request;
    // Channels-last with one input channel, a matrix, and a bias.
    const at::Tensor conv =
        torch::randn({4, 1, 3, 3})
            .to(torch::TensorOptions(type), false, true, at::MemoryFormat::ChannelsLast);
    request.parameters = {{"conv.weight", conv},
                          {"head.weight", torch::randn({3, 5}).to(type)},
                          {"head.bias", torch::randn({3}).to(type)}};
    for (const NamedTensor& one : request.parameters)
      one.tensor.requires_grad_(true);
    return request;
  }
  void set_gradient(const NamedTensor& parameter, const at::Tensor& value) {
    const at::NoGradGuard no_grad;
    const at::Tensor gradient = at::empty_like(parameter.tensor);
    gradient.copy_(precision_.scale(value));
    at::Tensor(parameter.tensor).mutable_grad() = gradient;
  }

  Precision precision_;
  std::unique_ptr<Group> group_;
  Ddp replica_;
};

inline std::map<std::string, at::Tensor> copy_by_name(const std::vector<NamedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, tensor] : tensors)
    result[name] = tensor.clone();
  return result;
}

inline void expect_equal(const std::map<std::string, at::Tensor>& a,
                         const std::map<std::string, at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a)
    EXPECT_TRUE(tensor.equal(b.at(name))) << name << "\n" << tensor << "\n" << b.at(name);
}

inline std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& one : tensors)
    names.push_back(one.name);
  return names;
}

inline OptimizerJob job_of(OptimizerJob::Name name) {
  OptimizerJob job;
  job.name = name;
  job.weight_decay = 0.01;
  return job;
}

}  // namespace ddp::worker::test
