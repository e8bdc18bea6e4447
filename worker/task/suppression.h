// Non-maximum suppression: of the boxes that say the same, the surest.
// Promises: classes are told apart by their numbers, not by moved boxes, so no rounding joins or
// parts two boxes. Equal scores stay in the order of boxes and classes, so the result is the same
// each time and on every device.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddp::worker {

/// The field's values. As they are they suit a prediction; see evaluation_suppression().
struct SuppressionOptions {
  double confidence = 0.25;             // only scores above it
  double iou = 0.7;                     // boxes whose IoU with a surer one is above it go
  std::int64_t max_candidates = 30000;  // of an image: the surest; the rest is not looked at
  std::int64_t max_kept = 300;          // of an image
  bool is_multi_label = false;          // a box for each class above the confidence, or the best
  bool is_class_agnostic = false;       // boxes of other classes suppress too
  std::optional<std::chrono::steady_clock::duration> time_limit{};  // of the batch; looked at
                                                                    // before each image
};

/// Unsure boxes and several labels a box: average precision wants the whole curve.
SuppressionOptions evaluation_suppression();

struct Suppressed {
  /// Of each image [n, 6], best first: left, top, right, bottom, score, class. Float32, on the CPU.
  std::vector<at::Tensor> detections;
  /// How many images at the end of the batch have no detections as the time was over.
  std::int64_t unfinished = 0;
};

/// Shapes: `boxes` [B, A, 4] as left, top, right, bottom in pixels; `scores` [B, A, classes] in
/// [0, 1]. A score or a box that is not a number never passes.
/// Blocks: on a GPU, four times for it, however many images there are: candidates are chosen there,
/// and suppressed on the host.
/// Errors: UsageError for other shapes. Source: greedy suppression as torchvision's nms, in
/// float32.
Suppressed suppress(const at::Tensor& boxes,
                    const at::Tensor& scores,
                    const SuppressionOptions& options);

}  // namespace ddp::worker
