#include "worker/task/classification.h"

#include <ATen/core/grad_mode.h>
#include <torch/torch.h>

#include <utility>

namespace ddp::worker {
namespace {

const at::Tensor& labels_of(const Batch& batch) {
  return batch.targets.at(0).values;  // [B]
}

}  // namespace

Classification::Classification(Model model, Criterion criterion, Criterion test_criterion)
    : model_(std::move(model)),
      criterion_(std::move(criterion)),
      test_criterion_(std::move(test_criterion)) {}

Outputs Classification::forward(const Batch& batch) {
  return {through_ ? through_(batch.input) : model_->forward(batch.input)};  // [B, classes]
}

Loss Classification::loss(const Outputs& outputs, const Batch& batch) {
  return criterion_(outputs[0], labels_of(batch));
}

Loss Classification::test_loss(const Outputs& outputs, const Batch& batch) {
  return test_criterion_(outputs[0], labels_of(batch));
}

std::vector<NamedTensor> Classification::counts(const Outputs& outputs, const Batch& batch) {
  const at::NoGradGuard no_grad;
  return {{"accuracy", outputs[0].argmax(1).eq(labels_of(batch)).sum()}};
}

}  // namespace ddp::worker
