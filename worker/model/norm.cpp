#include "worker/model/norm.h"

#include <ATen/ops/_foreach_add.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <algorithm>
#include <string_view>

#include "common/error.h"
#include "common/text/join_words.h"
#include "worker/model/python_layer.h"

namespace ddp::worker {
namespace {

// The variance of a single value is NaN. Errors: UsageError, where Python has ValueError.
void require_variance(const at::Tensor& x) {
  if (x.numel() != x.size(1)) return;
  throw UsageError(
      "batch norm: one value per channel, of one sample with one pixel left, has no variance. "
      "Give a rank more samples in every step (data.batch_per_rank; data.drop_last=true leaves a "
      "short last step out), or take larger images.");
}

class BatchNorm final : public Norm {
 public:
  using Norm::Norm;

  at::Tensor forward(at::Tensor x) override {
    if (is_training()) {
      require_variance(x);
      count_batch();
    }
    return normalise(x, is_training());
  }
};

template <typename... Layers>
bool is_any(const torch::nn::Module& layer) {
  return ((dynamic_cast<const Layers*>(&layer) != nullptr) || ...);
}

bool is_torch_batch_norm(const torch::nn::Module& layer) {
  using namespace torch::nn;
  return is_any<BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl>(layer);
}

// Calls visit(layer, "layer1.0.") for every layer of the tree below `layer`, and for itself.
template <typename Visit>
void walk(const torch::nn::Module& layer, const std::string& prefix, const Visit& visit) {
  visit(layer, prefix);
  for (const auto& child : layer.named_children())
    walk(*child.value(), prefix + child.key() + ".", visit);
}

}  // namespace

Norm::Norm(std::int64_t channels)
    : weight(register_parameter("weight", torch::ones(channels))),
      bias(register_parameter("bias", torch::zeros(channels))),
      running_mean(register_buffer("running_mean", torch::zeros(channels))),
      running_var(register_buffer("running_var", torch::ones(channels))),
      num_batches_tracked(register_buffer("num_batches_tracked", torch::tensor(0, torch::kLong))) {}

void Norm::count_batch() {
  if (is_counted_later_)
    ++uncounted_;
  else
    num_batches_tracked.add_(1);
}

BatchCounts::BatchCounts(torch::nn::Module& model) {
  for (const auto& module : model.modules()) {
    auto* const norm = dynamic_cast<Norm*>(module.get());
    // A layer may have several names.
    if (norm != nullptr && std::ranges::find(norms_, norm) == norms_.end()) norms_.push_back(norm);
  }
  for (Norm* const norm : norms_)
    norm->is_counted_later_ = true;
}

BatchCounts::~BatchCounts() {
  for (Norm* const norm : norms_)
    norm->is_counted_later_ = false;
}

void BatchCounts::add() const {
  const at::NoGradGuard no_grad;
  // Usually each layer has run once, so this loop does, too.
  for (bool is_rest = true; is_rest;) {
    std::vector<at::Tensor> counts;
    is_rest = false;
    for (Norm* const norm : norms_) {
      if (norm->uncounted_ == 0) continue;
      counts.push_back(norm->num_batches_tracked);
      is_rest = --norm->uncounted_ > 0 || is_rest;
    }
    if (!counts.empty()) at::_foreach_add_(counts, 1);
  }
}

at::Tensor Norm::normalise(const at::Tensor& x, bool by_own_statistics) const {
  return at::batch_norm(x,
                        weight,
                        bias,
                        running_mean,
                        running_var,
                        by_own_statistics,
                        momentum,
                        epsilon,
                        at::globalContext().userEnabledCuDNN());
}

MakeNorm batch_norm() {
  return [](std::int64_t channels) { return std::make_shared<BatchNorm>(channels); };
}

NormKind norm_kind(const torch::nn::Module& layer) {
  using namespace torch::nn;
  if (is_torch_batch_norm(layer)) return NormKind::batch;
  if (is_any<Norm, InstanceNorm1dImpl, InstanceNorm2dImpl, InstanceNorm3dImpl>(layer))
    return NormKind::batch;
  if (is_any<LayerNormImpl, GroupNormImpl>(layer)) return NormKind::layer;
  const auto* const python = dynamic_cast<const PythonLayer*>(&layer);
  if (python == nullptr) return NormKind::none;
  const std::string_view name = python->class_name;
  if (name.starts_with("BatchNorm") || name.starts_with("InstanceNorm")) return NormKind::batch;
  if (name.starts_with("LayerNorm") || name.starts_with("GroupNorm")) return NormKind::layer;
  return NormKind::none;
}

std::vector<std::string> norm_parameters_of(const torch::nn::Module& model) {
  std::vector<std::string> names;
  walk(model, "", [&names](const torch::nn::Module& layer, const std::string& prefix) {
    if (norm_kind(layer) == NormKind::none) return;
    for (const auto& parameter : layer.named_parameters(/*recurse=*/false))
      names.push_back(prefix + parameter.key());
  });
  return names;
}

void require_synced_norms(const torch::nn::Module& model, const std::string& name, int asked) {
  std::vector<std::string> own;
  walk(model, "", [&own](const torch::nn::Module& layer, const std::string& prefix) {
    if (!is_torch_batch_norm(layer)) return;
    own.push_back(prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1));
  });
  if (!own.empty()) {
    throw UsageError(
        "model.norm: sync: " + join_words(own) + " of model " + name +
        " are batch norms of torch::nn, which know one rank's samples alone. Make them "
        "with the request's norm(channels), or take model.norm=batch.");
  }
  if (asked > 0) return;
  throw UsageError("model.norm: sync: nothing in model " + name +
                   " uses it: it has no batch norm from its request. Take model.norm=batch.");
}

}  // namespace ddp::worker
