#include "worker/train/step/precision.h"

#include <torch/torch.h>

#include "worker/model/norm.h"

namespace ddp::worker {
namespace {

// Whether the layer's kernels accept 16-bit inputs with float32 parameters. Trap: those of layer
// and group norm do on a CPU, but throw on CUDA (pytorch issue 135969, as of torch 2.11).
bool is_wide_norm(const torch::nn::Module& layer, at::Device device) {
  const NormKind kind = norm_kind(layer);
  return kind == NormKind::batch || (kind == NormKind::layer && device.is_cpu());
}

struct Cast {
  at::ScalarType type;
  bool with_norms;
  at::Device device;  // where the model will run
};

void cast_layers(torch::nn::Module& layer, const Cast& cast) {
  for (const std::shared_ptr<torch::nn::Module>& child : layer.children())
    cast_layers(*child, cast);
  if (!cast.with_norms && is_wide_norm(layer, cast.device)) return;
  for (const bool is_buffer : {false, true}) {
    for (at::Tensor& tensor : is_buffer ? layer.buffers(false) : layer.parameters(false)) {
      // to() keeps the strides, also those of channels-last weights with one input channel.
      if (tensor.is_floating_point()) tensor.set_data(tensor.detach().to(cast.type));
    }
  }
}

}  // namespace

bool is_16_bit(at::ScalarType type) {
  return type == at::kBFloat16 || type == at::kHalf;
}

Precision::Precision(const AmpJob& job, at::Device device)
    : plan_(plan_amp(job)),
      device_(device),
      type_16_bit_(job.type == AmpJob::Type::bf16 ? at::kBFloat16 : at::kHalf) {
  if (plan_.loss_scale) loss_scale_.emplace(*plan_.loss_scale, device);
}

void Precision::prepare(torch::nn::Module& model) const {
  if (plan_.weights_16_bit) cast_layers(model, {type_16_bit_, plan_.norms_16_bit, device_});
}

Autocast Precision::autocast() const {
  return Autocast(device_.type(), plan_.autocast ? std::optional(type_16_bit_) : std::nullopt);
}

at::Tensor Precision::input(const at::Tensor& images) const {
  return plan_.weights_16_bit ? images.to(type_16_bit_) : images;
}

at::Tensor Precision::output(const at::Tensor& scores) const {
  return is_16_bit(scores.scalar_type()) ? scores.to(at::kFloat) : scores;
}

at::Tensor Precision::scale(const at::Tensor& loss) const {
  return loss_scale_ ? loss_scale_->scale(loss) : loss;
}

}  // namespace ddp::worker
