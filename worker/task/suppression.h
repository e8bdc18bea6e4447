// Non-maximum suppression: of boxes around the same object it keeps the surest.
// Promises: classes are told apart by their numbers, not by shifted boxes, so no rounding joins or
// separates two boxes. Equal scores stay in the order of boxes and classes, so the result is the
// same each time and on every device.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddp::worker {

/// The field's values, which suit a prediction; for others see evaluation_suppression().
struct SuppressionOptions {
  double confidence = 0.25;             // only scores above it
  double iou = 0.7;                     // boxes whose IoU with a surer box is above it are dropped
  std::int64_t max_candidates = 30000;  // of an image: the surest; the rest is ignored
  std::int64_t max_kept = 300;          // of an image
  bool is_multi_label = false;          // a box for each class above the confidence, or the best
  bool is_class_agnostic = false;       // boxes of other classes suppress too
  std::optional<std::chrono::steady_clock::duration> time_limit{};  // of a batch; checked
                                                                    // before each image
};

/// Keeps unsure boxes and several labels per box: average precision needs the whole curve.
SuppressionOptions evaluation_suppression();

struct Suppressed {
  /// [n, 6] for each image, best first: left, top, right, bottom, score, class. Float32, on the
  /// CPU.
  std::vector<at::Tensor> detections;
  /// How many images at the end of the batch have no detections because the time was over.
  std::int64_t unfinished = 0;
};

/// Shapes: `boxes` [B, A, 4] as left, top, right, bottom in pixels; `scores` [B, A, classes] in [0,
/// 1]. Drops every score and box with NaN.
/// Blocks: waits for a GPU four times, however many images there are: candidates are chosen on the
/// device, and suppressed on the host.
/// Errors: UsageError for other shapes. Source: greedy suppression as torchvision's nms, in
/// float32.
Suppressed suppress(const at::Tensor& boxes,
                    const at::Tensor& scores,
                    const SuppressionOptions& options);

}  // namespace ddp::worker
