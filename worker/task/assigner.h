// Task-aligned assignment: decides which object each anchor point of a detector must find. An
// object gets the anchor points that predict it best already, by class and box together. Source:
// Feng et al., arXiv:2108.07755, sections 3.2 and 3.3.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/task/anchor_points.h"

namespace ddp::worker {

/// The objects in all images of a batch, image after image.
struct Objects {
  at::Tensor labels;  // [N] of int64
  at::Tensor boxes;   // [N, 4]: left, top, right, bottom in pixels
  at::Tensor images;  // [N] of int64: the image's number in the batch, ascending
};

/// How well an anchor point fits an object is score^alpha * IoU^beta, with the predicted score of
/// the object's class.
struct AssignerOptions {
  std::int64_t topk = 10;  // anchor points per object, at most
  double alpha = 0.5;
  double beta = 6;
};

/// Always has N * topk rows; those that are not used have the score 0. Within an image an anchor
/// point is a candidate for one object at most.
struct Assignment {
  at::Tensor rows;     // [N * topk] of int64: the anchor point's row in [B * A, ...]
  at::Tensor objects;  // [N * topk] of int64: the object that it has to find
  /// [N * topk]: the target score of the object's class, in [0, 1]; 0: the row is not used. The
  /// best-fitting candidate of an object gets the largest IoU among its candidates as target.
  at::Tensor scores;
};

/// For which pairs of object and anchor point the fit is computed. `inside`: only if the point is
/// in the box; the host waits for the number of pairs. `all`: does not wait for a GPU, but takes
/// about 150 bytes of memory per pair. Both give the same result.
enum class Pairs { inside, all };

/// The candidates of an object are the `topk` best-fitting anchor points inside of its box (a side
/// below the second stride counts as that long). If an anchor point is a candidate of several
/// objects, it goes to the one with the largest IoU among all objects whose box it is in. Shapes:
/// logits [B, A, classes], boxes [B, A, 4] in pixels; both without a gradient.
Assignment assign(const at::Tensor& logits,
                  const at::Tensor& boxes,
                  const AnchorPoints& points,
                  const Objects& objects,
                  const AssignerOptions& options,
                  Pairs pairs);

}  // namespace ddp::worker
