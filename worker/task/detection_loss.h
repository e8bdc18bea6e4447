// The loss of a detector: how well boxes fit, how sharp the distances to their sides are, and the
// classes.
#pragma once

#include <ATen/core/Tensor.h>

#include "worker/data/loading/batch.h"
#include "worker/plan/args.h"
#include "worker/task/assigner.h"
#include "worker/task/loss.h"

namespace ddp::worker {

/// The arguments of the loss in the job file (loss.args), with the values of ultralytics.
struct DetectionLossRule {
  double box = 7.5;
  double cls = 0.5;
  double dfl = 1.5;
  AssignerRule assigner{};
  /// The loss is divided by the sum of target scores: over all ranks, or on each rank alone, as the
  /// field's packages do, which then take the mean over ranks.
  bool is_divided_per_rank = false;
  /// Multiplies the gradient. Other packages sum over the images of a batch of this size, and their
  /// learning rates assume that.
  double nominal_batch = 64;
};

/// Errors: UsageError.
DetectionLossRule read_detection_loss(const Args& args);

/// The objects of a batch: target 0 has rows of class, left, top, right, bottom. Does not wait for
/// a GPU.
Objects objects_of(const Batch& batch);

/// Sums over anchor points, weighted by the target score; the sum of target scores is the weight of
/// the loss, which counts as 1 at least. Parts: box, cls, dfl.
///   box  1 - CIoU                 Zheng et al., arXiv:1911.08287
///   dfl  cross-entropy of the two whole distances beside the true one, by how near they are, mean
///        over the sides           Li et al., arXiv:2006.04388, eq. 6
///   cls  binary cross-entropy with the target score, over all places and classes
/// Shapes: raw [B, A, kSides * kBins + classes], as of a Detector.
Loss detection_loss(const at::Tensor& raw,
                    const Objects& objects,
                    const AnchorPoints& points,
                    const DetectionLossRule& rule);

}  // namespace ddp::worker
