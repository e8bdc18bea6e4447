// Objects in images: boxes with a class each.
#pragma once

#include <memory>

#include "worker/model/detector.h"
#include "worker/task/detection_loss.h"
#include "worker/task/task.h"

namespace ddp::worker {

class Detection : public Task {
 public:
  Detection(std::shared_ptr<Detector> model, const DetectionLossRule& rule);

  torch::nn::Module& model() override { return *model_; }
  /// In training mode {raw}, what the model gives; in evaluation mode {boxes, scores, raw}: boxes
  /// [B, A, 4] in pixels and scores [B, A, classes], from 0 to 1.
  Outputs forward(const Batch& batch) override;
  Loss loss(const Outputs& outputs, const Batch& batch) override;

 private:
  std::shared_ptr<Detector> model_;
  DetectionLossRule rule_;
};

}  // namespace ddp::worker
