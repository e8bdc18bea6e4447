#include "worker/task/detection_loss.h"

#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "worker/model/detector.h"

namespace ddp::worker {
namespace {

/// The candidates of an assignment, ready to be compared. P: their number.
struct Candidates {
  at::Tensor distances;  // [P, kSides * kBins]: logits
  at::Tensor boxes;      // [P, 4]: those of the objects, in strides
  at::Tensor centers;    // [P, 2]: in strides
  at::Tensor scores;     // [P]: weights
};

at::Tensor sum_of_box_losses(const Candidates& candidates) {
  const at::Tensor found = make_boxes(decode_distances(candidates.distances), candidates.centers);
  return ((1 - complete_iou(found, candidates.boxes)) * candidates.scores).sum();
}

at::Tensor sum_of_distance_losses(const Candidates& candidates) {
  const at::Tensor& centers = candidates.centers;
  const at::Tensor wanted = at::cat({centers - candidates.boxes.narrow(1, 0, 2),
                                     candidates.boxes.narrow(1, 2, 2) - centers},
                                    1)
                                .clamp(0, Detector::kBins - 1 - 0.01);  // [P, 4]
  const at::Tensor below = wanted.floor();
  const at::Tensor upper_weight = wanted - below;
  const at::Tensor bin = below.to(at::kLong);
  const at::Tensor bins = at::stack({bin, bin + 1}, -1);  // [P, 4, 2]
  const at::Tensor weights = at::stack({1 - upper_weight, upper_weight}, -1);
  const at::Tensor logs = candidates.distances.view({-1, Detector::kSides, Detector::kBins})
                              .log_softmax(-1);  // [P, 4, kBins]
  const at::Tensor cost = (logs.gather(-1, bins) * weights).sum(-1);
  return -(cost.mean(-1) * candidates.scores).sum();
}

/// With target t and logit x the loss is log(1 + e^x) - t x, and few targets are not 0.
at::Tensor sum_of_class_losses(const at::Tensor& logits,
                               const at::Tensor& rows,
                               const at::Tensor& labels,
                               const at::Tensor& scores) {
  const at::Tensor own = logits.flatten(0, 1).index({rows, labels});
  return at::softplus(logits).sum() - (own * scores).sum();
}

}  // namespace

DetectionLossOptions read_detection_loss(const Args& args) {
  DetectionLossOptions options;
  options.box_gain = args.real("box", 0, 1e6, options.box_gain);
  options.cls_gain = args.real("cls", 0, 1e6, options.cls_gain);
  options.dfl_gain = args.real("dfl", 0, 1e6, options.dfl_gain);
  options.assigner.topk = args.integer("top", 1, 1000, options.assigner.topk);
  options.assigner.alpha = args.real("alpha", 0, 100, options.assigner.alpha);
  options.assigner.beta = args.real("beta", 0, 100, options.assigner.beta);
  options.nominal_batch = args.real("nominal_batch", 1e-3, 1e6, options.nominal_batch);
  const std::string divided = args.text("normalise", "all");
  if (divided != "all" && divided != "rank") {
    throw UsageError(args.where("normalise") + ": \"" + divided +
                     "\" is neither all (by the target scores of all ranks) nor rank (by those of "
                     "each rank, as the field's packages do).");
  }
  options.is_divided_per_rank = divided == "rank";
  return options;
}

Objects objects_of(const Batch& batch) {
  const at::Tensor& values = batch.targets.at(0).values;
  const at::Tensor& rows = batch.targets.at(0).rows;
  Objects objects;
  objects.labels = values.select(1, 0).to(at::kLong);
  objects.boxes = values.narrow(1, 1, 4);
  // Trap: with a plain number it would call another overload.
  objects.images = at::repeat_interleave(rows, std::optional(values.size(0)));
  return objects;
}

Loss detection_loss(const at::Tensor& raw,
                    const Objects& objects,
                    const AnchorPoints& points,
                    const DetectionLossOptions& options) {
  const std::int64_t classes = raw.size(2) - Detector::kDistances;
  const std::vector<at::Tensor> both = raw.split_with_sizes({Detector::kDistances, classes}, 2);
  const at::Tensor& distances = both[0];
  const at::Tensor& logits = both[1];
  Objects wanted = objects;
  wanted.boxes = objects.boxes.to(raw.scalar_type());
  Assignment assignment;
  {
    const torch::NoGradGuard no_grad;
    const at::Tensor boxes =
        make_boxes(decode_distances(distances.detach()), points.centers, points.strides);
    const Pairs pairs = raw.is_cpu() ? Pairs::inside : Pairs::all;
    assignment = assign(logits.detach(), boxes, points, wanted, options.assigner, pairs);
  }
  const at::Tensor point = assignment.rows.remainder(points.size());
  const at::Tensor strides = points.strides.index_select(0, point);
  const Candidates candidates{distances.flatten(0, 1).index_select(0, assignment.rows),
                              wanted.boxes.index_select(0, assignment.objects) / strides,
                              points.centers.index_select(0, point) / strides,
                              assignment.scores};
  const at::Tensor labels = wanted.labels.index_select(0, assignment.objects);

  const at::Tensor box = options.box_gain * sum_of_box_losses(candidates);
  const at::Tensor cls =
      options.cls_gain * sum_of_class_losses(logits, assignment.rows, labels, assignment.scores);
  const at::Tensor dfl = options.dfl_gain * sum_of_distance_losses(candidates);
  Loss loss;
  loss.gain = options.nominal_batch;
  loss.total = box + cls + dfl;
  loss.parts = {{"box", box.detach()}, {"cls", cls.detach()}, {"dfl", dfl.detach()}};
  const at::Tensor weight = assignment.scores.sum();
  if (!options.is_divided_per_rank) {
    loss.weight = weight;
    loss.least_weight = 1;
    return loss;
  }
  const at::Tensor divisor = weight.clamp_min(1);
  loss.total = loss.total / divisor;
  for (NamedTensor& part : loss.parts)
    part.tensor = part.tensor / divisor;
  return loss;
}

}  // namespace ddp::worker
