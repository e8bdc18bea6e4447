#include "worker/image/box.h"

#include <algorithm>

namespace ddp::worker {
namespace {

struct Point {
  double x;
  double y;
};

/// The box around the four corners after `move`.
template <typename Move>
Box hull(const Box& box, Move move) {
  const std::array<std::array<float, 2>, 4> corners{
      {{box.left, box.top}, {box.right, box.top}, {box.right, box.bottom}, {box.left, box.bottom}}};
  Box around;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Point point = move(corners[i][0], corners[i][1]);
    const auto x = static_cast<float>(point.x);
    const auto y = static_cast<float>(point.y);
    if (i == 0) around = {x, y, x, y};
    around = {std::min(around.left, x),
              std::min(around.top, y),
              std::max(around.right, x),
              std::max(around.bottom, y)};
  }
  return around;
}

}  // namespace

float area(const Box& box) {
  return std::max(box.right - box.left, 0.0F) * std::max(box.bottom - box.top, 0.0F);
}

std::optional<Box> clip(const Box& box, ImageSize image, float least) {
  const auto width = static_cast<float>(image.width);
  const auto height = static_cast<float>(image.height);
  const Box inside{.left = std::clamp(box.left, 0.0F, width),
                   .top = std::clamp(box.top, 0.0F, height),
                   .right = std::clamp(box.right, 0.0F, width),
                   .bottom = std::clamp(box.bottom, 0.0F, height)};
  // Also false for a box with NaN.
  if (area(inside) > 0 && area(inside) >= least * area(box)) return inside;
  return std::nullopt;
}

Box flip_horizontal(const Box& box, ImageSize image) {
  const auto width = static_cast<float>(image.width);
  return {width - box.right, box.top, width - box.left, box.bottom};
}

Box flip_vertical(const Box& box, ImageSize image) {
  const auto height = static_cast<float>(image.height);
  return {box.left, height - box.bottom, box.right, height - box.top};
}

std::optional<Box> crop(const Box& box, const Region& region, float least) {
  const auto left = static_cast<float>(region.left);
  const auto top = static_cast<float>(region.top);
  return clip(
      {box.left - left, box.top - top, box.right - left, box.bottom - top}, region.size(), least);
}

Box resize(const Box& box, ImageSize from, ImageSize to) {
  const auto across = static_cast<float>(static_cast<double>(to.width) / from.width);
  const auto down = static_cast<float>(static_cast<double>(to.height) / from.height);
  return {box.left * across, box.top * down, box.right * across, box.bottom * down};
}

Box move_affine(const Box& box, const Affine& affine, ImageSize image) {
  const std::array<double, 6> m = affine_matrix(affine, image);
  return hull(box, [&m](double x, double y) {
    return Point{m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
  });
}

std::optional<Box> move_perspective(const Box& box, const Matrix3& m) {
  float nearest = 1;
  const Box moved = hull(box, [&](double x, double y) {
    const double depth = m[6] * x + m[7] * y + m[8];
    nearest = std::min(nearest, static_cast<float>(depth));
    return Point{(m[0] * x + m[1] * y + m[2]) / depth, (m[3] * x + m[4] * y + m[5]) / depth};
  });
  if (!(nearest > 0)) return std::nullopt;
  return moved;
}

}  // namespace ddp::worker
