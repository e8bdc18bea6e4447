// What training minimises, as a function of scores and labels; a program of its own may bring
// another one.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ddp::worker {

/// The loss of one batch and, by name, what it is made of or is shown beside it. The parts are
/// detached, or at least take no part in backward.
/// Shapes: all []. Units: means over the batch's samples.
struct Loss {
  at::Tensor total;
  std::vector<std::pair<std::string, at::Tensor>> parts{};
};

/// Shapes: scores [B, classes] of float32 or float64, labels [B] of int64.
using Criterion = std::function<Loss(const at::Tensor& scores, const at::Tensor& labels)>;

/// Cross-entropy. With smoothing s, a label is 1 - s for its class and s / classes for every class;
/// the part "cross-entropy" is then the loss without smoothing.
/// Source: Szegedy et al., arXiv:1512.00567, section 7; torch.nn.functional.cross_entropy.
Criterion make_cross_entropy(double label_smoothing);

}  // namespace ddp::worker
