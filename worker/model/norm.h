// Normalisation layers of the image models, behind one interface: a model asks its factory for each
// norm, so `batch` or `sync` is chosen when the model is built, and a finished model need not be
// converted.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddp::worker {

/// Normalises each channel over batch, height and width; derived classes decide over which samples
/// (those of this rank, or those of all ranks). Has the state of torch's BatchNorm2d, under the
/// same names and in the same order.
/// Shapes: forward takes and returns [B, channels, H, W].
class Norm : public torch::nn::Module {
 public:
  explicit Norm(std::int64_t channels);

  virtual at::Tensor forward(at::Tensor x) = 0;
  at::Tensor operator()(at::Tensor x) { return forward(std::move(x)); }
  /// Calls torch's kernel, with the statistics of `x`, which also update the running ones, or with
  /// the running statistics.
  at::Tensor normalise(const at::Tensor& x, bool by_own_statistics) const;

  /// Counts a forward in training mode in num_batches_tracked: at once, or later by BatchCounts.
  void count_batch();

  // A model whose constants differ from torch's sets them after construction.
  double epsilon = 1e-5;
  double momentum = 0.1;  // running = (1 - momentum) * running + momentum * new

  at::Tensor weight;               // [channels], 1 at first
  at::Tensor bias;                 // [channels], 0 at first
  at::Tensor running_mean;         // [channels], 0 at first
  at::Tensor running_var;          // [channels], unbiased, 1 at first
  at::Tensor num_batches_tracked;  // [], int64: forwards in training mode

 private:
  friend class BatchCounts;
  bool is_counted_later_ = false;
  std::int64_t uncounted_ = 0;  // forwards not in num_batches_tracked yet
};

/// Updates num_batches_tracked of all norms of a model at once: on a device one operator instead of
/// one per layer.
class BatchCounts {
 public:
  /// From now on the norms of `model`, which outlives this object, leave counting to add().
  explicit BatchCounts(torch::nn::Module& model);
  BatchCounts(const BatchCounts&) = delete;
  BatchCounts& operator=(const BatchCounts&) = delete;
  ~BatchCounts();

  /// Adds the forwards since the last call.
  void add() const;

 private:
  std::vector<Norm*> norms_;
};

using MakeNorm = std::function<std::shared_ptr<Norm>(std::int64_t channels)>;

/// Makes norms over this process's samples, bit-equal to torch::nn::BatchNorm2d. In training mode
/// they use the batch's statistics and update the running ones; in evaluation mode they use the
/// running ones.
/// Source: Ioffe and Szegedy, arXiv:1502.03167.
MakeNorm batch_norm();

/// The kinds of norm layers. `batch`: Norm, and torch::nn's BatchNorm and InstanceNorm, which use
/// the same kernels; `layer`: torch::nn's LayerNorm and GroupNorm; `none`: any other layer, even if
/// it contains a norm. A layer from Python (PythonLayer) is known by the name of its class.
enum class NormKind { none, batch, layer };
NormKind norm_kind(const torch::nn::Module& layer);

/// Names of the parameters that belong to norm layers, in order of construction.
std::vector<std::string> norm_parameters_of(const torch::nn::Module& model);

/// For `model.norm: sync`. `asked` is how many norms the model has made by its request's factory.
/// Errors: UsageError for a model that took none, and for batch norms of torch::nn, each by name:
/// they would still normalise over the samples of one rank.
void require_synced_norms(const torch::nn::Module& model, const std::string& name, int asked);

}  // namespace ddp::worker
