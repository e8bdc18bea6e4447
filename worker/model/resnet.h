// ResNet-18, -34 and -50, as torchvision builds them: with its names, shapes and initialisation, so
// that its weights load and the same seed draws the same weights.
// Source: He et al., arXiv:1512.03385; torchvision/models/resnet.py (stride in the 3x3 convolution
// of a bottleneck, "v1.5").
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <vector>

#include "worker/model/image_model.h"
#include "worker/model/norm.h"

namespace ddp::worker {

/// The layers before the first stage. imagenet: a 7x7 convolution of stride 2 and a max-pool;
/// together they divide the image's sides by four. cifar: one 3x3 convolution of stride 1. No other
/// weight differs in shape.
enum class Stem { imagenet, cifar };

struct ResNetPlan {
  std::array<int, 4> blocks{2, 2, 2, 2};  // per stage
  bool is_bottleneck = false;             // three convolutions per block instead of two
  Stem stem = Stem::imagenet;
};

/// One residual block. Shapes: [B, in, H, W] to [B, out, H / stride, W / stride].
class ResNetBlock : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor x) = 0;
};

class ResNet : public ImageModel {
 public:
  ResNet(const ResNetPlan& plan, std::int64_t channels, int classes, const MakeNorm& norm);

  at::Tensor forward(at::Tensor x) override;

 private:
  // The module tree owns the blocks, too; these are in order, and of their real type.
  using Stage = std::vector<std::shared_ptr<ResNetBlock>>;

  Stem stem_;
  torch::nn::Conv2d conv1_{nullptr};
  std::shared_ptr<Norm> bn1_;
  std::array<Stage, 4> stages_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace ddp::worker
