// The task of finding objects in images: boxes, each with a class.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/image/image.h"
#include "worker/model/detector.h"
#include "worker/task/detection_loss.h"
#include "worker/task/task.h"

namespace ddp::worker {

class ObjectDetection : public Task {
 public:
  /// `names` are the classes' names, `image` is the size of the model's input. Each training step
  /// draws a size between 1 - `multi_scale` and 1 + `multi_scale` times `image`.
  ObjectDetection(std::shared_ptr<Detector> model,
                  const DetectionLossOptions& options,
                  std::vector<std::string> names,
                  ImageSize image,
                  double multi_scale = 0);

  torch::nn::Module& model() override { return *model_; }
  Batch transform_batch(const Batch& batch, std::uint64_t seed) override;
  /// In training mode {raw}, the model's own output; in evaluation mode {boxes, scores, raw}: boxes
  /// [B, A, 4] in pixels and scores [B, A, classes], from 0 to 1.
  Outputs forward(const Batch& batch) override;
  Loss loss(const Outputs& outputs, const Batch& batch) override;
  void fuse() override { model_->fuse(); }
  std::unique_ptr<Metric> metric() override;
  /// Pictures of at most 16 images: in training NAME with the objects; of an evaluation NAME_labels
  /// with the objects, and NAME_pred with the predictions.
  Pictures pictures(const ShownBatch& shown) override;
  [[nodiscard]] MonitoredMetric monitored() const override { return {"AP50:95", true}; }

 private:
  /// The points for `images`, with dtype and device of `like`; made again only when one of these
  /// changes.
  const AnchorPoints& points_of(const at::Tensor& images, const at::Tensor& like);

  std::shared_ptr<Detector> model_;
  DetectionLossOptions options_;
  std::vector<std::string> names_;
  ImageSize image_;
  double multi_scale_;
  AnchorPoints points_;
  ImageSize points_size_;
};

}  // namespace ddp::worker
