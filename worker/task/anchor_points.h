// The anchor points at which a Detector looks for objects, and the boxes that it predicts there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddp::worker {

/// The centres of a detector's grid cells, in the order of its outputs. Both tensors are float32
/// (float64 if the outputs are).
struct AnchorPoints {
  at::Tensor centers;  // [A, 2]: x, y in pixels
  at::Tensor strides;  // [A, 1]: in pixels

  [[nodiscard]] std::int64_t size() const { return centers.size(0); }
};

/// The points for images of [height, width], with dtype and device of `like`.
AnchorPoints make_anchor_points(std::int64_t height, std::int64_t width, const at::Tensor& like);

/// The distances that the logits stand for (expected values). Shapes: logits [..., kSides * kBins]
/// to [..., kSides], in strides. Source: Li et al., arXiv:2006.04388, eq. 4.
at::Tensor decode_distances(const at::Tensor& logits);

/// Boxes (left, top, right, bottom) whose sides have these distances from the anchor points.
/// Shapes: distances [..., 4] in strides, centers [..., 2] and strides [..., 1] in pixels; to [...,
/// 4] in pixels. Without `strides`, centers and result are in strides, too.
at::Tensor make_boxes(const at::Tensor& distances,
                      const at::Tensor& centers,
                      const at::Tensor& strides = {});

/// Complete IoU (CIoU) of pairs of boxes: IoU, minus a term for the distance of the centres, minus
/// a term for different aspect ratios. Differentiable in `a`.
/// Shapes: [..., 4] both, to [...]. Source: Zheng et al., arXiv:1911.08287, eq. 10 to 12; 1e-7
/// keeps divisors from 0, where ultralytics has it.
at::Tensor complete_iou(const at::Tensor& a, const at::Tensor& b);

}  // namespace ddp::worker
