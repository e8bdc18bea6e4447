#include "worker/model/yolo.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/error.h"

namespace ddp::worker {
namespace {

// From ultralytics, for all of its detectors.
constexpr double kNormEpsilon = 1e-3;
constexpr double kNormMomentum = 0.03;
// The image side and the number of objects for which the head's first scores are right.
constexpr double kFirstSide = 640;
constexpr double kFirstObjects = 5;
constexpr double kFirstDistance = 2;  // arbitrary: the softmax of equal logits is uniform

/// Convolution, norm, SiLU.
class ConvBlock final : public YoloLayer {
 public:
  ConvBlock(std::int64_t in,
            std::int64_t out,
            std::int64_t kernel,
            std::int64_t stride,
            std::int64_t padding,
            const MakeNorm& norm)
      : conv_(register_module("conv",
                              torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel)
                                                    .stride(stride)
                                                    .padding(padding)
                                                    .bias(false)))),
        norm_(register_module("bn", norm(out))),
        padding_(padding) {
    norm_->epsilon = kNormEpsilon;
    norm_->momentum = kNormMomentum;
  }

  at::Tensor forward(at::Tensor x) override {
    if (!weight_.defined()) return at::silu(norm_->forward(conv_(x)));
    const auto& options = conv_->options;
    return at::silu(at::conv2d(x, weight_, bias_, options.stride(), padding_));
  }

  /// In evaluation mode a norm multiplies each channel by a factor and adds a number; the
  /// convolution's weights and bias can do both.
  void fuse() {
    const torch::NoGradGuard no_grad;
    const at::Tensor factor = norm_->weight * (norm_->running_var + norm_->epsilon).rsqrt();
    weight_ = (conv_->weight * factor.view({-1, 1, 1, 1}))
                  .contiguous(conv_->weight.suggest_memory_format())
                  .to(conv_->weight.scalar_type());
    bias_ = (norm_->bias - norm_->running_mean * factor).to(conv_->weight.scalar_type());
  }

 private:
  torch::nn::Conv2d conv_;
  std::shared_ptr<Norm> norm_;
  std::int64_t padding_;
  at::Tensor weight_;  // set once fused
  at::Tensor bias_;
};

std::shared_ptr<YoloLayer> conv(std::int64_t in,
                                std::int64_t out,
                                std::int64_t kernel,
                                std::int64_t stride,
                                const MakeNorm& norm) {
  return std::make_shared<ConvBlock>(in, out, kernel, stride, kernel / 2, norm);
}

/// Two convolutions, the second one 3x3, and a residual connection (ultralytics: Bottleneck).
class Residual final : public YoloLayer {
 public:
  Residual(std::int64_t channels, std::int64_t first_kernel, bool adds, const MakeNorm& norm)
      : first_(register_module("cv1", conv(channels, channels, first_kernel, 1, norm))),
        second_(register_module("cv2", conv(channels, channels, 3, 1, norm))),
        adds_(adds) {}

  at::Tensor forward(at::Tensor x) override {
    const at::Tensor y = second_->forward(first_->forward(x));
    return adds_ ? x + y : y;
  }

 private:
  std::shared_ptr<YoloLayer> first_;
  std::shared_ptr<YoloLayer> second_;
  bool adds_;
};

struct StagePlan {
  std::int64_t in = 0;
  std::int64_t out = 0;
  int blocks = 1;
  bool adds = true;
};

/// Adds plan.blocks blocks to the module tree as "m".
std::vector<std::shared_ptr<YoloLayer>> add_blocks(torch::nn::Module& parent,
                                                   const StagePlan& plan,
                                                   std::int64_t first_kernel,
                                                   const MakeNorm& norm) {
  torch::nn::ModuleList list;
  std::vector<std::shared_ptr<YoloLayer>> blocks;
  for (int i = 0; i < plan.blocks; ++i) {
    blocks.push_back(std::make_shared<Residual>(plan.out / 2, first_kernel, plan.adds, norm));
    list->push_back(blocks.back());
  }
  parent.register_module("m", list);
  return blocks;
}

/// v5: half of the channels goes through the blocks, the other half around them.
class C3 final : public YoloLayer {
 public:
  C3(const StagePlan& plan, const MakeNorm& norm)
      : through_(register_module("cv1", conv(plan.in, plan.out / 2, 1, 1, norm))),
        bypass_(register_module("cv2", conv(plan.in, plan.out / 2, 1, 1, norm))),
        join_(register_module("cv3", conv(2 * (plan.out / 2), plan.out, 1, 1, norm))),
        blocks_(add_blocks(*this, plan, 1, norm)) {}

  at::Tensor forward(at::Tensor x) override {
    at::Tensor y = through_->forward(x);
    for (const auto& block : blocks_)
      y = block->forward(y);
    return join_->forward(at::cat({y, bypass_->forward(x)}, 1));
  }

 private:
  std::shared_ptr<YoloLayer> through_;
  std::shared_ptr<YoloLayer> bypass_;
  std::shared_ptr<YoloLayer> join_;
  std::vector<std::shared_ptr<YoloLayer>> blocks_;
};

/// v8's stage: concatenates the outputs of all blocks, not only the last one.
class C2f final : public YoloLayer {
 public:
  C2f(const StagePlan& plan, const MakeNorm& norm)
      : split_(register_module("cv1", conv(plan.in, 2 * (plan.out / 2), 1, 1, norm))),
        join_(
            register_module("cv2", conv((2 + plan.blocks) * (plan.out / 2), plan.out, 1, 1, norm))),
        blocks_(add_blocks(*this, plan, 3, norm)) {}

  at::Tensor forward(at::Tensor x) override {
    std::vector<at::Tensor> parts = split_->forward(x).chunk(2, 1);
    for (const auto& block : blocks_)
      parts.push_back(block->forward(parts.back()));
    return join_->forward(at::cat(parts, 1));
  }

 private:
  std::shared_ptr<YoloLayer> split_;
  std::shared_ptr<YoloLayer> join_;
  std::vector<std::shared_ptr<YoloLayer>> blocks_;
};

/// Spatial pyramid pooling (ultralytics: SPPF): max-pools of 5, 9 and 13 pixels, computed as three
/// pools of 5 in a row.
class PyramidPool final : public YoloLayer {
 public:
  PyramidPool(std::int64_t channels, const MakeNorm& norm)
      : narrow_(register_module("cv1", conv(channels, channels / 2, 1, 1, norm))),
        join_(register_module("cv2", conv(4 * (channels / 2), channels, 1, 1, norm))) {}

  at::Tensor forward(at::Tensor x) override {
    std::vector<at::Tensor> parts{narrow_->forward(x)};
    for (int i = 0; i < 3; ++i)
      parts.push_back(at::max_pool2d(parts.back(), 5, 1, 2));
    return join_->forward(at::cat(parts, 1));
  }

 private:
  std::shared_ptr<YoloLayer> narrow_;
  std::shared_ptr<YoloLayer> join_;
};

/// Two 3x3 convolutions and a 1x1 convolution to the outputs.
class Branch final : public YoloLayer {
 public:
  Branch(std::int64_t in, std::int64_t inner, std::int64_t out, const MakeNorm& norm)
      : first_(register_module("0", conv(in, inner, 3, 1, norm))),
        second_(register_module("1", conv(inner, inner, 3, 1, norm))),
        last_(register_module("2", torch::nn::Conv2d(torch::nn::Conv2dOptions(inner, out, 1)))) {}

  at::Tensor forward(at::Tensor x) override { return last_(second_->forward(first_->forward(x))); }

  void set_bias(double value) {
    const torch::NoGradGuard no_grad;
    last_->bias.fill_(value);
  }

 private:
  std::shared_ptr<YoloLayer> first_;
  std::shared_ptr<YoloLayer> second_;
  torch::nn::Conv2d last_;
};

/// The numbers 0, 1, ... whose weighted mean is a distance (ultralytics: DFL). They are not
/// trained, and forward() does not use them, but files of weights contain them.
class Bins final : public torch::nn::Module {
 public:
  Bins() {
    class BinNumbers final : public torch::nn::Module {
     public:
      BinNumbers() {
        const at::Tensor numbers = torch::arange(Detector::kBins, torch::kFloat);
        register_parameter("weight", numbers.view({1, -1, 1, 1}), /*requires_grad=*/false);
      }
    };
    // Python makes a convolution of them, which draws initial values from the generator.
    (void)torch::nn::Conv2d(torch::nn::Conv2dOptions(Detector::kBins, 1, 1).bias(false));
    register_module("conv", std::make_shared<BinNumbers>());
  }
};

}  // namespace

class YoloHead : public torch::nn::Module {
 public:
  YoloHead(const std::array<std::int64_t, 3>& in, std::int64_t classes, const MakeNorm& norm) {
    constexpr std::int64_t distances = Detector::kDistances;
    const std::int64_t box_width = std::max({std::int64_t{16}, in[0] / 4, distances});
    const std::int64_t class_width = std::max(in[0], std::min<std::int64_t>(classes, 100));
    boxes_ = add("cv2", in, box_width, distances, norm);
    classes_ = add("cv3", in, class_width, classes, norm);
    register_module("dfl", std::make_shared<Bins>());
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double cells = std::pow(kFirstSide / static_cast<double>(Detector::kStrides.at(i)), 2);
      boxes_[i]->set_bias(kFirstDistance);
      classes_[i]->set_bias(std::log(kFirstObjects / static_cast<double>(classes) / cells));
    }
  }

  /// From the features of each stride; see Detector.
  at::Tensor forward(const std::array<at::Tensor, 3>& features) {
    std::vector<at::Tensor> places;
    for (std::size_t i = 0; i < features.size(); ++i) {
      const at::Tensor both =
          at::cat({boxes_[i]->forward(features[i]), classes_[i]->forward(features[i])}, 1);
      places.push_back(both.permute({0, 2, 3, 1}).flatten(1, 2));  // [B, h w, 64 + classes]
    }
    return at::cat(places, 1);
  }

 private:
  using Branches = std::array<std::shared_ptr<Branch>, 3>;

  Branches add(const std::string& name,
               const std::array<std::int64_t, 3>& in,
               std::int64_t inner,
               std::int64_t out,
               const MakeNorm& norm) {
    torch::nn::ModuleList list;
    Branches branches;
    for (std::size_t i = 0; i < in.size(); ++i) {
      branches[i] = std::make_shared<Branch>(in[i], inner, out, norm);
      list->push_back(branches[i]);
    }
    register_module(name, list);
    return branches;
  }

  Branches boxes_;
  Branches classes_;
};

/// Adds layers to the module tree, numbered by their line in ultralytics' model file.
class Yolo::Builder {
 public:
  Builder(const YoloPlan& plan, const MakeNorm& norm) : plan_(plan), norm_(norm) {}

  /// A number of channels in the model file, scaled by `width`.
  [[nodiscard]] std::int64_t channels(std::int64_t planned) const {
    const double wanted = static_cast<double>(std::min(planned, plan_.max_channels)) * plan_.width;
    return static_cast<std::int64_t>(std::ceil(wanted / 8)) * 8;
  }

  Layer add_conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    return add(conv(in, out, kernel, stride, norm_));
  }
  Layer add_stage(std::int64_t in, std::int64_t out, int blocks, bool adds) {
    const double deep = std::nearbyint(blocks * plan_.depth);  // 2.5 becomes 2, as Python's round
    const StagePlan stage{in, out, std::max(1, static_cast<int>(deep)), adds};
    if (plan_.family == YoloPlan::Family::v5) return add(std::make_shared<C3>(stage, norm_));
    return add(std::make_shared<C2f>(stage, norm_));
  }
  template <typename Module>
  std::shared_ptr<Module> add(std::shared_ptr<Module> layer) {
    return layers_->register_module(std::to_string(next_++), std::move(layer));
  }
  /// Skips lines of the model file without weights (upsample, concat).
  void skip(int lines) { next_ += lines; }

  [[nodiscard]] const std::shared_ptr<torch::nn::Module>& layers() const { return layers_; }

 private:
  const YoloPlan& plan_;
  const MakeNorm& norm_;
  std::shared_ptr<torch::nn::Module> layers_ = std::make_shared<torch::nn::Module>();
  int next_ = 0;
};

Yolo::Yolo(const YoloPlan& plan, std::int64_t channels, std::int64_t classes, const MakeNorm& norm)
    : Detector(classes) {
  Builder builder(plan, norm);
  register_module("model", builder.layers());
  const bool is_v5 = plan.family == YoloPlan::Family::v5;
  const std::int64_t c1 = builder.channels(64);
  const std::int64_t c2 = builder.channels(128);
  const std::int64_t c3 = builder.channels(256);
  const std::int64_t c4 = builder.channels(512);
  const std::int64_t c5 = builder.channels(1024);
  backbone_[0] = is_v5
                     ? builder.add(Layer(std::make_shared<ConvBlock>(channels, c1, 6, 2, 2, norm)))
                     : builder.add_conv(channels, c1, 3, 2);
  backbone_[1] = builder.add_conv(c1, c2, 3, 2);
  backbone_[2] = builder.add_stage(c2, c2, 3, true);
  backbone_[3] = builder.add_conv(c2, c3, 3, 2);
  backbone_[4] = builder.add_stage(c3, c3, 6, true);
  backbone_[5] = builder.add_conv(c3, c4, 3, 2);
  backbone_[6] = builder.add_stage(c4, c4, is_v5 ? 9 : 6, true);
  backbone_[7] = builder.add_conv(c4, c5, 3, 2);
  backbone_[8] = builder.add_stage(c5, c5, 3, true);
  backbone_[9] = builder.add(Layer(std::make_shared<PyramidPool>(c5, norm)));

  if (is_v5) narrow_high_ = builder.add_conv(c5, c4, 1, 1);
  const std::int64_t high = is_v5 ? c4 : c5;
  builder.skip(2);
  merge_mid_ = builder.add_stage(high + c4, c4, 3, false);
  if (is_v5) narrow_mid_ = builder.add_conv(c4, c3, 1, 1);
  const std::int64_t mid = is_v5 ? c3 : c4;
  builder.skip(2);
  merge_low_ = builder.add_stage(mid + c3, c3, 3, false);

  halve_low_ = builder.add_conv(c3, c3, 3, 2);
  builder.skip(1);
  join_mid_ = builder.add_stage(c3 + mid, c4, 3, false);
  halve_mid_ = builder.add_conv(c4, c4, 3, 2);
  builder.skip(1);
  join_high_ = builder.add_stage(c4 + high, c5, 3, false);
  head_ = builder.add(std::make_shared<YoloHead>(std::array{c3, c4, c5}, classes, norm));
}

void Yolo::require_sides(std::int64_t height, std::int64_t width) {
  const std::int64_t last = kStrides.back();
  if (height % last == 0 && width % last == 0 && height > 0 && width > 0) return;
  throw UsageError("images of " + std::to_string(height) + " x " + std::to_string(width) +
                   " pixels: a yolo needs sides that are multiples of " + std::to_string(last) +
                   ". Set data.image_size to one.");
}

void Yolo::fuse() {
  for (const auto& module : modules()) {
    if (auto* const block = dynamic_cast<ConvBlock*>(module.get())) block->fuse();
  }
}

at::Tensor Yolo::forward(at::Tensor x) {  // [B, C, H, W]
  require_sides(x.size(2), x.size(3));
  std::array<at::Tensor, 10> features;
  for (std::size_t i = 0; i < backbone_.size(); ++i)
    features[i] = x = backbone_[i]->forward(x);
  const auto upsample_and_join = [](const at::Tensor& small, const at::Tensor& large) {
    return at::cat({at::upsample_nearest2d(small, large.sizes().slice(2)), large}, 1);
  };
  const at::Tensor high = narrow_high_ ? narrow_high_->forward(x) : x;         // H / 32
  at::Tensor mid = merge_mid_->forward(upsample_and_join(high, features[6]));  // H / 16
  if (narrow_mid_) mid = narrow_mid_->forward(mid);
  const at::Tensor low = merge_low_->forward(upsample_and_join(mid, features[4]));  // H / 8
  mid = join_mid_->forward(at::cat({halve_low_->forward(low), mid}, 1));            // H / 16
  x = join_high_->forward(at::cat({halve_mid_->forward(mid), high}, 1));            // H / 32
  return head_->forward({low, mid, x});
}

}  // namespace ddp::worker
