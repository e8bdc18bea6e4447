#include "worker/task/loss.h"

#include <torch/torch.h>

namespace ddp::worker {
namespace {

constexpr std::int64_t kNoLabel = -100;  // torch's default for a label that is left out

Loss smoothed_cross_entropy(double smoothing, const at::Tensor& scores, const at::Tensor& labels) {
  Loss loss;
  loss.total = at::cross_entropy_loss(scores, labels, {}, at::Reduction::Mean, kNoLabel, smoothing);
  const at::NoGradGuard no_grad;
  loss.parts.push_back({"cross-entropy", at::cross_entropy_loss(scores, labels)});
  return loss;
}

}  // namespace

Criterion make_cross_entropy(double label_smoothing) {
  if (label_smoothing == 0) {
    return [](const at::Tensor& scores, const at::Tensor& labels) {
      return Loss{at::cross_entropy_loss(scores, labels)};
    };
  }
  return [label_smoothing](const at::Tensor& scores, const at::Tensor& labels) {
    return smoothed_cross_entropy(label_smoothing, scores, labels);
  };
}

}  // namespace ddp::worker
