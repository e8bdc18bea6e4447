// Which object each anchor point of a detector has to find: an object gets the anchor points whose
// prediction is best already, in class and box together. Source: task-aligned assignment, Feng et
// al., arXiv:2108.07755, sections 3.2 and 3.3.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/task/anchor_points.h"

namespace ddp::worker {

/// The objects in the images of a batch, image after image.
struct Objects {
  at::Tensor labels;  // [N] of int64
  at::Tensor boxes;   // [N, 4]: left, top, right, bottom in pixels
  at::Tensor images;  // [N] of int64: the image's number in the batch, ascending
};

/// An anchor point and an object fit by score^alpha * IoU^beta, with the score of the object's
/// class.
struct AssignerRule {
  std::int64_t top = 10;  // most anchor points of an object
  double alpha = 0.5;
  double beta = 6;
};

/// Always N * top rows; a row that is not a candidate has the score 0. Within an image no anchor
/// point is a candidate twice.
struct Assignment {
  at::Tensor rows;     // [N * top] of int64: the anchor point's row in [B * A, ...]
  at::Tensor objects;  // [N * top] of int64: the object that it has to find
  /// [N * top]: the target score of the object's class, in [0, 1]; 0: the row is not a candidate.
  /// The target of an object's best-fitting candidate is the largest IoU among its candidates.
  at::Tensor scores;
};

/// Which pairs of object and anchor point are measured. `inside`: those whose anchor point is
/// inside of the box; the host waits to learn their number. `all`: does not wait for a GPU, but
/// takes some 150 bytes of memory per pair.
enum class Pairs { inside, all };

/// An object's candidates are the `top` best-fitting anchor points inside of its box (a side below
/// the second stride counts as that long). If several objects ask for an anchor point, it goes to
/// the one with the largest IoU among all objects whose box it is in. `pairs` does not change the
/// result. Shapes: logits [B, A, classes], boxes [B, A, 4] in pixels; both without a gradient.
Assignment assign(const at::Tensor& logits,
                  const at::Tensor& boxes,
                  const AnchorPoints& points,
                  const Objects& objects,
                  const AssignerRule& rule,
                  Pairs pairs);

}  // namespace ddp::worker
