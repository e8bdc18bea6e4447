// YOLOv5 and YOLOv8, both with the same head: anchor-free, with separate branches for boxes and
// classes. Names and shapes of weights, constants and initial values are those of ultralytics
// ("yolov5nu.pt",
// "yolov8n.pt"), so that its weights load and the same seed draws the same weights.
// Sources: CSP blocks Wang et al., arXiv:1911.11929; path aggregation (PAN) Liu et al.,
// arXiv:1803.01534; spatial pyramid pooling He et al., arXiv:1406.4729.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "worker/model/detector.h"
#include "worker/model/norm.h"

namespace ddp::worker {

struct YoloPlan {
  enum class Family { v5, v8 };

  Family family = Family::v8;
  double depth = 1;                  // factor on the number of blocks in a stage
  double width = 1;                  // factor on the number of channels
  std::int64_t max_channels = 1024;  // limit before `width` is applied
};

/// A layer with a number in ultralytics' model files. Shapes: [B, in, H, W] to [B, out, H / stride,
/// W / stride].
class YoloLayer : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor x) = 0;
};

/// Predicts boxes and classes from the features of three strides.
class YoloHead;

class Yolo : public Detector {
 public:
  Yolo(const YoloPlan& plan, std::int64_t channels, std::int64_t classes, const MakeNorm& norm);

  /// Errors: UsageError for images whose sides are not multiples of the last stride.
  static void require_sides(std::int64_t height, std::int64_t width);

  /// Errors: as require_sides().
  at::Tensor forward(at::Tensor x) override;
  void fuse() override;

 private:
  class Builder;
  using Layer = std::shared_ptr<YoloLayer>;

  // Shared with the module tree. high, mid, low: features at H / 32, H / 16 and H / 8.
  std::array<Layer, 10> backbone_;
  Layer narrow_high_;  // v5 only
  Layer merge_mid_;    // top-down path
  Layer narrow_mid_;   // v5 only
  Layer merge_low_;
  Layer halve_low_;  // bottom-up path
  Layer join_mid_;
  Layer halve_mid_;
  Layer join_high_;
  std::shared_ptr<YoloHead> head_;
};

}  // namespace ddp::worker
