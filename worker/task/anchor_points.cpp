#include "worker/task/anchor_points.h"

#include <ATen/ATen.h>

#include <numbers>
#include <vector>

#include "worker/model/detector.h"

namespace ddp::worker {

AnchorPoints make_anchor_points(std::int64_t height, std::int64_t width, const at::Tensor& like) {
  std::vector<at::Tensor> centers;
  std::vector<at::Tensor> strides;
  for (const std::int64_t stride : Detector::kStrides) {
    const auto middles = [&](std::int64_t side) {
      return (at::arange(side / stride, like.options()) + 0.5) * stride;
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
  const at::Tensor pixels = distances * strides;
  return at::cat({centers - pixels.narrow(-1, 0, 2), centers + pixels.narrow(-1, 2, 2)}, -1);
}

at::Tensor complete_iou(const at::Tensor& a, const at::Tensor& b) {
  constexpr double kEpsilon = 1e-7;
  const std::vector<at::Tensor> first = a.unbind(-1);
  const std::vector<at::Tensor> second = b.unbind(-1);
  const at::Tensor a_width = first[2] - first[0];
  const at::Tensor a_height = first[3] - first[1] + kEpsilon;
  const at::Tensor b_width = second[2] - second[0];
  const at::Tensor b_height = second[3] - second[1] + kEpsilon;
  const auto overlap = [&](std::size_t low) {
    return (at::minimum(first[low + 2], second[low + 2]) - at::maximum(first[low], second[low]))
        .clamp_min(0);
  };
  const at::Tensor both = overlap(0) * overlap(1);
  const at::Tensor either = a_width * a_height + b_width * b_height - both + kEpsilon;
  const at::Tensor iou = both / either;

  const auto span = [&](std::size_t low) {  // a side of the smallest box around both
    return at::maximum(first[low + 2], second[low + 2]) - at::minimum(first[low], second[low]);
  };
  const auto apart = [&](std::size_t low) {  // twice the distance of the centres
    return second[low] + second[low + 2] - first[low] - first[low + 2];
  };
  const at::Tensor diagonal = span(0).square() + span(1).square() + kEpsilon;
  const at::Tensor distance = (apart(0).square() + apart(1).square()) / 4;
  const at::Tensor ratio = (b_width / b_height).atan() - (a_width / a_height).atan();
  const at::Tensor v = ratio.square() * (4 / (std::numbers::pi * std::numbers::pi));
  const at::Tensor alpha = (v / (v - iou + (1 + kEpsilon))).detach();
  return iou - (distance / diagonal + v * alpha);
}

}  // namespace ddp::worker
