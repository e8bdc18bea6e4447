#include "worker/model/norm.h"

#include <torch/types.h>

namespace ddp::worker {
namespace {

class BatchNorm final : public Norm {
 public:
  using Norm::Norm;

  at::Tensor forward(at::Tensor x) override {
    if (is_training()) num_batches_tracked.add_(1);
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
