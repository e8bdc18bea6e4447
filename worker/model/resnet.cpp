#include "worker/model/resnet.h"

#include <torch/nn/functional/pooling.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

namespace ddp::worker {
namespace {

torch::nn::Conv2d conv(std::int64_t in,
                       std::int64_t out,
                       std::int64_t kernel,
                       std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// The way around a block whose output and input differ in shape: 1x1 convolution and norm.
class Shortcut : public torch::nn::Module {
 public:
  Shortcut(std::int64_t in, std::int64_t out, std::int64_t stride, const MakeNorm& norm)
      : conv_(register_module("0", conv(in, out, 1, stride))),
        norm_(register_module("1", norm(out))) {}

  at::Tensor forward(const at::Tensor& x) { return norm_->forward(conv_(x)); }

 private:
  torch::nn::Conv2d conv_;
  std::shared_ptr<Norm> norm_;
};

struct BlockPlan {
  std::int64_t in = 64;
  std::int64_t width = 64;  // of the 3x3 convolutions
  std::int64_t out = 64;
  std::int64_t stride = 1;
};

std::shared_ptr<Shortcut> make_shortcut(const BlockPlan& plan, const MakeNorm& norm) {
  if (plan.stride == 1 && plan.in == plan.out) return nullptr;
  return std::make_shared<Shortcut>(plan.in, plan.out, plan.stride, norm);
}

// The shortcut is constructed first and registered last, as in torchvision: construction reads the
// generator, registration gives the order of names.
class Block final : public ResNetBlock {
 public:
  Block(bool is_bottleneck, const BlockPlan& plan, const MakeNorm& norm)
      : shortcut_(make_shortcut(plan, norm)) {
    if (is_bottleneck) {
      add(conv(plan.in, plan.width, 1, 1), plan.width, norm);
      add(conv(plan.width, plan.width, 3, plan.stride), plan.width, norm);
      add(conv(plan.width, plan.out, 1, 1), plan.out, norm);
    } else {
      add(conv(plan.in, plan.width, 3, plan.stride), plan.width, norm);
      add(conv(plan.width, plan.out, 3, 1), plan.out, norm);
    }
    if (shortcut_) register_module("downsample", shortcut_);
  }

  at::Tensor forward(at::Tensor x) override {
    at::Tensor y = x;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      y = norms_[i]->forward(convs_[i](y));
      if (i + 1 < convs_.size()) y.relu_();
    }
    y.add_(shortcut_ ? shortcut_->forward(x) : x);
    return y.relu_();
  }

 private:
  void add(const torch::nn::Conv2d& layer, std::int64_t channels, const MakeNorm& norm) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(register_module("conv" + number, layer));
    norms_.push_back(register_module("bn" + number, norm(channels)));
  }

  std::shared_ptr<Shortcut> shortcut_;
  std::vector<torch::nn::Conv2d> convs_;
  std::vector<std::shared_ptr<Norm>> norms_;
};

// Source: He et al., arXiv:1502.01852, eq. 14, backward case. Norms have weights 1 and biases 0
// already.
void draw_convolutions(torch::nn::Module& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto* const layer = module->as<torch::nn::Conv2dImpl>();
    if (layer != nullptr)
      torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
  }
}

}  // namespace

ResNet::ResNet(const ResNetPlan& plan, std::int64_t channels, int classes, const MakeNorm& norm)
    : stem_(plan.stem) {
  const bool is_cifar = plan.stem == Stem::cifar;
  conv1_ = register_module("conv1", conv(channels, 64, is_cifar ? 3 : 7, is_cifar ? 1 : 2));
  bn1_ = register_module("bn1", norm(64));
  BlockPlan block;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    torch::nn::ModuleList list;
    block.width = std::int64_t{64} << stage;
    block.out = plan.is_bottleneck ? 4 * block.width : block.width;
    block.stride = stage == 0 ? 1 : 2;
    for (int i = 0; i < plan.blocks[stage]; ++i) {
      stages_[stage].push_back(std::make_shared<Block>(plan.is_bottleneck, block, norm));
      list->push_back(stages_[stage].back());
      block.in = block.out;
      block.stride = 1;
    }
    register_module("layer" + std::to_string(stage + 1), list);
  }
  fc_ = register_module("fc", torch::nn::Linear(block.out, classes));
  draw_convolutions(*this);
}

at::Tensor ResNet::forward(at::Tensor x) {                      // [B, C, 224, 224]
  x = bn1_->forward(conv1_(x)).relu_();                         // [B, 64, 112, 112]
  if (stem_ == Stem::imagenet) x = at::max_pool2d(x, 3, 2, 1);  // [B, 64, 56, 56]
  for (const Stage& stage : stages_) {
    for (const auto& block : stage)
      x = block->forward(x);  // at the end [B, 512 or 2048, 7, 7]
  }
  x = at::adaptive_avg_pool2d(x, {1, 1});  // [B, 512 or 2048, 1, 1]
  return fc_(at::flatten(x, 1));           // [B, classes]
}

}  // namespace ddp::worker
