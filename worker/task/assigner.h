// Which object each anchor point of a detector is to find: those at which the prediction is best
// already, in class and in box together. Source: task-aligned assignment, Feng et al.,
// arXiv:2108.07755, sections 3.2 and 3.3.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/task/anchor_points.h"

namespace ddp::worker {

/// The objects in the images of a batch, image after image.
struct Objects {
  at::Tensor labels;  // [N] of int64
  at::Tensor boxes;   // [N, 4]: left, top, right, bottom in pixels
  at::Tensor images;  // [N] of int64: which of the batch, ascending
};

/// How well anchor point and object fit is score^alpha * IoU^beta, with the score of the object's
/// class.
struct AssignerRule {
  std::int64_t top = 10;  // anchor points of an object
  double alpha = 0.5;
  double beta = 6;
};

/// Always N * top rows; a row that is no candidate has a score of 0. No anchor point of an image is
/// a candidate twice.
struct Assignment {
  at::Tensor rows;     // [N * top] of int64: the anchor point's, in [B * A, ...]
  at::Tensor objects;  // [N * top] of int64: which it is to find
  /// [N * top]: what the score of the object's class is to be, in [0, 1]; 0: it is not a candidate.
  /// The best-fitting candidate of an object is to score the largest IoU among the object's
  /// candidates.
  at::Tensor scores;
};

/// Which pairs of object and anchor point are measured: those of anchor points inside of boxes,
/// whose number must be known to the host; or all, for which nothing waits for a GPU, but which
/// take some 150 bytes of memory each.
enum class Pairs { inside, all };

/// An object's candidates are the anchor points inside of its box (a side below the second stride
/// counts as that long), of these the `top` that fit best. An anchor point that several ask for
/// goes to the one with the largest IoU of all in whose box it is. `pairs` makes no difference to
/// that. Shapes: logits [B, A, classes], boxes [B, A, 4] in pixels; both without a gradient.
Assignment assign(const at::Tensor& logits,
                  const at::Tensor& boxes,
                  const AnchorPoints& points,
                  const Objects& objects,
                  const AssignerRule& rule,
                  Pairs pairs);

}  // namespace ddp::worker
