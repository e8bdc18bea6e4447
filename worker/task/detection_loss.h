// The loss of a detector, from three parts: the fit of boxes, the distribution of distances to
// their sides, the classes.
#pragma once

#include <ATen/core/Tensor.h>

#include "worker/data/loading/batch.h"
#include "worker/plan/args.h"
#include "worker/task/assigner.h"
#include "worker/task/loss.h"

namespace ddp::worker {

/// The arguments of the loss in the job file (loss.args), with ultralytics' defaults.
struct DetectionLossOptions {
  // Weights of the three parts.
  double box_gain = 7.5;
  double cls_gain = 0.5;
  double dfl_gain = 1.5;
  AssignerOptions assigner{};
  /// The loss is divided by the sum of target scores: over all ranks; or (true) on each rank
  /// separately before the mean over ranks, as in other packages.
  bool is_divided_per_rank = false;
  /// A factor on the gradient. Other packages sum over the images of a batch of this size, and
  /// their learning rates assume that.
  double nominal_batch = 64;
};

/// Errors: UsageError.
DetectionLossOptions read_detection_loss(const Args& args);

/// The objects of a batch: target 0 has rows of class, left, top, right, bottom. Does not wait for
/// a GPU.
Objects objects_of(const Batch& batch);

/// The loss is a sum over anchor points, weighted by the target score; its weight is the sum of
/// target scores, at least 1. Parts: box, cls, dfl.
///   box  1 - CIoU                                 Zheng et al., arXiv:1911.08287
///   dfl  cross-entropy with the two bins beside   Li et al., arXiv:2006.04388, eq. 6
///        the true distance, weighted by nearness,
///        mean over the sides
///   cls  binary cross-entropy with the target score, over all anchor points and classes
/// Shapes: raw [B, A, kSides * kBins + classes], as of a Detector.
Loss detection_loss(const at::Tensor& raw,
                    const Objects& objects,
                    const AnchorPoints& points,
                    const DetectionLossOptions& options);

}  // namespace ddp::worker
