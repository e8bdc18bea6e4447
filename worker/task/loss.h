// The loss of a batch: what training minimises, for any task.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "worker/model/named_tensor.h"

namespace ddp::worker {

/// The loss of one micro-batch, and parts of it by name, which are only shown. The parts are
/// detached, or at least not used in backward. Shapes: all [].
/// Without a weight, `total` and `parts` are means over the batch's samples. With a weight they are
/// sums, and the loss of an optimizer step is the sum of `total` over all ranks and micro-steps,
/// divided by the sum of `weight`: for tasks whose mean is not over samples (boxes, tokens). A step
/// whose weight is 0 has no gradient.
struct Loss {
  at::Tensor total;
  std::vector<NamedTensor> parts{};
  at::Tensor weight{};  // on the device, detached; undefined: the number of samples
  // A lower limit of a step's whole weight; the same in every pass on every rank.
  double least_weight = 0;
  double gain = 1;  // a factor on the gradient alone
};

/// A loss of scores and labels.
/// Shapes: scores [B, classes] of float32 or float64, labels [B] of int64, or soft labels [B,
/// classes], as for mixed images.
using Criterion = std::function<Loss(const at::Tensor& scores, const at::Tensor& labels)>;

/// Cross-entropy. With smoothing s, a label is 1 - s for its class and s / classes for every class;
/// the part "cross-entropy" is then the loss without smoothing.
/// Source: Szegedy et al., arXiv:1512.00567, section 7; torch.nn.functional.cross_entropy.
Criterion make_cross_entropy(double label_smoothing);

}  // namespace ddp::worker
