#include "worker/train/meters.h"

#include <torch/torch.h>

namespace ddp::worker {

Meter measure(const at::Tensor& loss, const at::Tensor& scores, const at::Tensor& labels) {
  const at::NoGradGuard no_grad;
  Meter meter;
  meter.count = static_cast<double>(labels.size(0));
  meter.loss = loss.item<double>() * meter.count;
  meter.correct = static_cast<double>(scores.argmax(1).eq(labels).sum().item<std::int64_t>());
  return meter;
}

at::Tensor to_tensor(const Meter& meter) {
  return at::tensor({meter.loss, meter.correct, meter.count}, at::kDouble);
}

Meter to_meter(const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  const double* const value = values.data_ptr<double>();
  return {value[0], value[1], value[2]};
}

}  // namespace ddp::worker
