#include "worker/model/norm.h"

#include <torch/types.h>

#include "common/error.h"

namespace ddp::worker {
namespace {

// The variance of one value is no number. Errors: UsageError, where Python has ValueError.
void require_variance(const at::Tensor& x) {
  if (x.numel() != x.size(1)) return;
  throw UsageError(
      "batch norm: one value per channel, of one sample with one pixel left, has no variance. "
      "Give a rank more samples in every step (data.batch_per_rank, data.train_size), or take "
      "larger images.");
}

class BatchNorm final : public Norm {
 public:
  using Norm::Norm;

  at::Tensor forward(at::Tensor x) override {
    if (is_training()) {
      require_variance(x);
      num_batches_tracked.add_(1);
    }
    return at::batch_norm(x,
                          weight,
                          bias,
                          running_mean,
                          running_var,
                          is_training(),
                          kMomentum,
                          kEpsilon,
                          at::globalContext().userEnabledCuDNN());
  }
};

}  // namespace

Norm::Norm(std::int64_t channels)
    : weight(register_parameter("weight", torch::ones(channels))),
      bias(register_parameter("bias", torch::zeros(channels))),
      running_mean(register_buffer("running_mean", torch::zeros(channels))),
      running_var(register_buffer("running_var", torch::ones(channels))),
      num_batches_tracked(register_buffer("num_batches_tracked", torch::tensor(0, torch::kLong))) {}

MakeNorm batch_norm() {
  return [](std::int64_t channels) { return std::make_shared<BatchNorm>(channels); };
}

}  // namespace ddp::worker
