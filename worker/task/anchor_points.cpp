#include "worker/task/anchor_points.h"

#include <ATen/ATen.h>

#include <numbers>
#include <vector>

#include "worker/model/detector.h"

namespace ddp::worker {
namespace {

/// Splits [..., 4] (left, top, right, bottom) into the low ends (left, top) and the high ends
/// (right, bottom).
struct Ends {
  explicit Ends(const at::Tensor& boxes) {
    const std::vector<at::Tensor> both = boxes.unflatten(-1, {2, 2}).unbind(-2);
    low = both[0];
    high = both[1];
  }

  at::Tensor low;
  at::Tensor high;
};

struct Sides {
  Sides(const Ends& ends, double epsilon) {
    const std::vector<at::Tensor> both = (ends.high - ends.low).unbind(-1);
    width = both[0];
    height = both[1] + epsilon;
  }

  at::Tensor width;
  at::Tensor height;
};

}  // namespace

AnchorPoints make_anchor_points(std::int64_t height, std::int64_t width, const at::Tensor& like) {
  std::vector<at::Tensor> centers;
  std::vector<at::Tensor> strides;
  for (const std::int64_t stride : Detector::kStrides) {
    const double half = static_cast<double>(stride) / 2;
    const auto middles = [&](std::int64_t side) {
      return at::arange(half, side / stride * stride, stride, like.options());
    };
    const std::vector<at::Tensor> grid = at::meshgrid({middles(height), middles(width)}, "ij");
    centers.push_back(at::stack({grid[1], grid[0]}, -1).view({-1, 2}));
    strides.push_back(at::full({centers.back().size(0), 1}, stride, like.options()));
  }
  return {at::cat(centers), at::cat(strides)};
}

at::Tensor decode_distances(const at::Tensor& logits) {
  std::vector<std::int64_t> shape = logits.sizes().vec();
  shape.back() = Detector::kSides;
  shape.push_back(Detector::kBins);
  // A sum, because under autocast a matrix product would be in 16 bits.
  return (logits.view(shape).softmax(-1) * at::arange(Detector::kBins, logits.options())).sum(-1);
}

at::Tensor make_boxes(const at::Tensor& distances,
                      const at::Tensor& centers,
                      const at::Tensor& strides) {
  const Ends sides(strides.defined() ? distances * strides : distances);
  return at::stack({centers - sides.low, centers + sides.high}, -2).flatten(-2);
}

/// Handles x and y in one tensor where possible, which halves the number of operators.
at::Tensor complete_iou(const at::Tensor& a, const at::Tensor& b) {
  constexpr double kEpsilon = 1e-7;
  const Ends first(a);
  const Ends second(b);
  const Sides own(first, kEpsilon);
  const Sides other(second, kEpsilon);
  const std::vector<at::Tensor> overlap =
      (at::minimum(first.high, second.high) - at::maximum(first.low, second.low))
          .clamp_min(0)
          .unbind(-1);
  const at::Tensor both = overlap[0] * overlap[1];
  const at::Tensor either = own.width * own.height + other.width * other.height - both + kEpsilon;
  const at::Tensor iou = both / either;

  // Sides of the smallest box around both, and twice the distance of the centres.
  const at::Tensor span = at::maximum(first.high, second.high) - at::minimum(first.low, second.low);
  const at::Tensor apart = second.low + second.high - first.low - first.high;
  const at::Tensor diagonal = span.square().sum(-1) + kEpsilon;
  const at::Tensor distance = apart.square().sum(-1) / 4;
  const at::Tensor ratio = (other.width / other.height).atan() - (own.width / own.height).atan();
  const at::Tensor v = ratio.square() * (4 / (std::numbers::pi * std::numbers::pi));
  const at::Tensor alpha = (v / (v - iou + (1 + kEpsilon))).detach();
  return iou - (distance / diagonal + v * alpha);
}

}  // namespace ddp::worker
