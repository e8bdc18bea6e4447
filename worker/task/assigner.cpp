#include "worker/task/assigner.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "worker/model/detector.h"

namespace ddp::worker {
namespace {

constexpr double kInside = 1e-9;  // pixels
constexpr double kEpsilon = 1e-9;

/// [N, A]: whether an anchor point lies in an object's box.
at::Tensor find_inside(const AnchorPoints& points, const Objects& objects) {
  constexpr auto kLeastSide = static_cast<double>(Detector::kStrides[1]);
  const at::Tensor low = objects.boxes.narrow(1, 0, 2);
  const at::Tensor high = objects.boxes.narrow(1, 2, 2);
  const at::Tensor middle = (low + high) / 2;
  const at::Tensor half = (high - low).clamp_min(kLeastSide) / 2;  // [N, 2]
  const at::Tensor margin =
      half.unsqueeze(1) - (points.centers.unsqueeze(0) - middle.unsqueeze(1)).abs();
  return margin.amin(-1).gt(kInside);
}

/// Pairs of anchor point and object, with fit and IoU; both are 0 if the point is outside of the
/// object's box.
struct Fits {
  at::Tensor objects;  // [pairs] of int64
  at::Tensor points;   // [pairs] of int64
  at::Tensor metric;   // [pairs]
  at::Tensor overlap;  // [pairs]
};

Fits measure(const at::Tensor& logits,
             const at::Tensor& boxes,
             const at::Tensor& inside,
             const Objects& objects,
             const AssignerOptions& options,
             Pairs pairs) {
  Fits fits;
  const auto number = [&](std::int64_t end) { return at::arange(end, objects.labels.options()); };
  if (pairs == Pairs::all) {
    fits.objects = number(inside.size(0)).repeat_interleave(inside.size(1));
    fits.points = number(inside.size(1)).repeat(inside.size(0));
  } else {
    const at::Tensor both = inside.nonzero();
    fits.objects = both.select(1, 0);
    fits.points = both.select(1, 1);
  }
  const at::Tensor images = objects.images.index_select(0, fits.objects);
  const at::Tensor scores =
      logits.index({images, fits.points, objects.labels.index_select(0, fits.objects)}).sigmoid();
  const at::Tensor own = objects.boxes.index_select(0, fits.objects);
  const at::Tensor found = boxes.index({images, fits.points});
  const at::Tensor is_inside = inside.index({fits.objects, fits.points});
  // A predicted box with NaN, or whose area overflows, fits no object.
  const at::Tensor overlap = complete_iou(own, found).clamp_min(0).nan_to_num(0, 0, 0);
  fits.overlap = at::where(is_inside, overlap, at::zeros_like(overlap));
  fits.metric = scores.pow(options.alpha) * fits.overlap.pow(options.beta);
  return fits;
}

/// Scatters values of pairs into a matrix [N, A].
at::Tensor to_matrix(const Fits& fits, const at::Tensor& values, at::IntArrayRef shape) {
  return at::zeros(shape, values.options()).index_put_({fits.objects, fits.points}, values);
}

/// For each of `size` rows, the lowest value with that row number; for a row without values the
/// largest int64.
at::Tensor scatter_min(const at::Tensor& rows, const at::Tensor& values, std::int64_t size) {
  return at::full({size}, std::numeric_limits<std::int64_t>::max(), values.options())
      .scatter_reduce_(0, rows, values, "amin");
}

at::Tensor scatter_max(const at::Tensor& rows, const at::Tensor& values, std::int64_t size) {
  return at::zeros({size}, values.options()).scatter_reduce_(0, rows, values, "amax");
}

}  // namespace

Assignment assign(const at::Tensor& logits,
                  const at::Tensor& boxes,
                  const AnchorPoints& points,
                  const Objects& objects,
                  const AssignerOptions& options,
                  Pairs pairs) {
  const std::int64_t count = objects.labels.size(0);
  const std::int64_t rows = boxes.size(0) * points.size();
  const Fits fits = measure(logits, boxes, find_inside(points, objects), objects, options, pairs);
  const at::Tensor metric = to_matrix(fits, fits.metric, {count, points.size()});
  const at::Tensor overlap = to_matrix(fits, fits.overlap, {count, points.size()});
  const auto row_of = [&](const at::Tensor& object, const at::Tensor& point) {
    return objects.images.index_select(0, object) * points.size() + point;
  };

  // The best-fitting anchor points of each object.
  const auto [fit, point] = metric.topk(std::min(options.topk, points.size()), 1);
  const at::Tensor chosen_points = point.flatten();
  const at::Tensor choosing_objects =
      at::arange(count, objects.labels.options()).unsqueeze(1).expand_as(point).reshape({-1});
  const at::Tensor is_chosen = fit.flatten().gt(0);
  Assignment result;
  result.rows = row_of(choosing_objects, chosen_points);

  // If several objects choose the same anchor point, the one with the largest IoU gets it.
  const at::Tensor chosen_count =
      at::zeros({rows}, choosing_objects.options())
          .scatter_add_(0, result.rows, is_chosen.to(choosing_objects.scalar_type()));
  const at::Tensor pair_rows = row_of(fits.objects, fits.points);
  const at::Tensor best = scatter_max(pair_rows, fits.overlap, rows);
  const at::Tensor is_best = fits.overlap.eq(best.index_select(0, pair_rows));
  const at::Tensor nobody = at::full_like(fits.objects, std::numeric_limits<std::int64_t>::max());
  const at::Tensor winner = scatter_min(pair_rows, at::where(is_best, fits.objects, nobody), rows)
                                .index_select(0, result.rows);
  const at::Tensor is_contested = chosen_count.index_select(0, result.rows).gt(1);
  result.objects = at::where(is_contested & is_chosen, winner, choosing_objects);
  // Its row is used only once, that of the first object that has chosen it.
  const at::Tensor first =
      scatter_min(result.rows,
                  at::where(is_chosen, choosing_objects, at::full_like(choosing_objects, count)),
                  rows);
  const at::Tensor is_taken = is_chosen & first.index_select(0, result.rows).eq(choosing_objects);

  const at::Tensor fit_of = metric.index({result.objects, chosen_points}) * is_taken;
  const at::Tensor overlap_of = overlap.index({result.objects, chosen_points}) * is_taken;
  const at::Tensor best_fit = scatter_max(result.objects, fit_of, count);
  const at::Tensor best_overlap = scatter_max(result.objects, overlap_of, count);
  result.scores = fit_of * best_overlap.index_select(0, result.objects) /
                  (best_fit.index_select(0, result.objects) + kEpsilon);
  return result;
}

}  // namespace ddp::worker
