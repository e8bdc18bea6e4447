// The metric of detection: COCO's average precision over all ranks, and its pictures.
// Each rank matches its own images and keeps a small record of each detection. merge() joins the
// records of all ranks in the order of images, so the results do not depend on the number of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "worker/image/image.h"
#include "worker/task/box_matching.h"
#include "worker/task/class_results.h"
#include "worker/task/metric.h"
#include "worker/task/precision_curve.h"

namespace ddp::worker {

/// Samples with the targets of worker/data/sets/ground_truth.h are evaluated by these, in pixels of
/// the image's file: detections are mapped back out of the letterbox and clipped to the image,
/// areas are those of outlines if the labels have them, and detections in a crowd are ignored.
/// Other samples are evaluated by their boxes, in pixels of the model's input.
/// Memory: 32 bytes per detection, at most 300 per image; in merge() about four times that of all
/// ranks, on every rank.
class AveragePrecision : public Metric, public HasClassResults {
 public:
  /// `names` are those of the classes; `image` is the size of the model's input.
  AveragePrecision(std::vector<std::string> names, ImageSize image);

  /// Shapes: outputs[0] are boxes [B, A, 4] as left, top, right, bottom in pixels, outputs[1]
  /// scores [B, A, classes] in [0, 1]; suppress() is applied here. batch.targets[0] are objects [n,
  /// 5] as class, left, top, right, bottom in pixels, with their rows [B]; batch.indices identify
  /// the images. An image that was in an earlier batch is ignored. With ground truth, batch.input
  /// is [B, C, H, W], with each image placed as by letterbox(). Errors: UsageError for other
  /// shapes, or a class that does not exist.
  void update(const Outputs& outputs, const Batch& batch) override;
  void merge(Group& group) override;
  /// "precision", "recall" and "F1" at IoU 0.50 and the confidence where the mean F1 is the
  /// highest; "AP50", "AP75", "AP50:95", and the last by the objects' size: "AP_small",
  /// "AP_medium", "AP_large". Means over the classes that have objects; 0 when none has.
  [[nodiscard]] NamedValues values() const override;
  /// PR_curve, F1_curve and confusion_matrix.
  [[nodiscard]] Pictures pictures() const override;
  /// "AP50", "AP50:95", "F1" by class, and the confusion matrix with background.
  [[nodiscard]] ClassResults class_results() const override;

  /// After merge(), the same on every rank: curves, confusion matrix, a row per class.
  [[nodiscard]] const DetectionQuality& quality() const { return quality_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  void add_image(std::int64_t image,
                 const std::vector<GroundTruth>& truths,
                 const std::vector<Detection>& detections);

  std::vector<std::string> names_;
  ImageSize image_;
  std::vector<std::int64_t> images_;       // that this rank has evaluated
  std::unordered_set<std::int64_t> seen_;  // the same numbers
  ImageMatches matches_;                   // of `images_`
  DetectionQuality quality_;
};

}  // namespace ddp::worker
