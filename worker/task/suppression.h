// Non-maximum suppression: of boxes around the same object it keeps the one with the highest score.
// Promises: classes are separated by their numbers, not by shifting boxes, so rounding cannot
// change the result. Equal scores keep the order of boxes and classes, so the result is the same
// each time and on every device.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddp::worker {

/// The defaults are ultralytics' for predictions; for evaluations use evaluation_suppression().
struct SuppressionOptions {
  double confidence = 0.25;             // only scores above it
  double iou = 0.7;                     // drops boxes whose IoU with a better box is above it
  std::int64_t max_candidates = 30000;  // of an image: those with the highest scores
  std::int64_t max_kept = 300;          // of an image
  bool is_multi_label =
      false;  // a box counts for each class above the confidence; else for the best
  bool is_class_agnostic = false;  // boxes of different classes suppress each other, too
  std::optional<std::chrono::steady_clock::duration> time_limit{};  // for a batch
};

/// A low confidence and several labels per box: average precision needs the whole curve.
SuppressionOptions evaluation_suppression();

struct Suppressed {
  /// [n, 6] for each image, best first: left, top, right, bottom, score, class. Float32, on the
  /// CPU.
  std::vector<at::Tensor> detections;
  /// How many images at the end of the batch were not processed because the time limit was over.
  std::int64_t unfinished = 0;
};

/// Shapes: `boxes` [B, A, 4] as left, top, right, bottom in pixels; `scores` [B, A, classes] in [0,
/// 1]. Ignores NaN scores, and boxes with sides that are not finite.
/// Blocks: waits for a GPU four times per batch: candidates are chosen on the device, and
/// suppressed on the host.
/// Errors: UsageError for other shapes. Source: greedy suppression as torchvision's nms, in
/// float32.
Suppressed suppress(const at::Tensor& boxes,
                    const at::Tensor& scores,
                    const SuppressionOptions& options);

}  // namespace ddp::worker
