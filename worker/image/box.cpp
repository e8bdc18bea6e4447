#include "worker/image/box.h"

#include <algorithm>

namespace ddp::worker {

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
  // Also false for a box of numbers that are none.
  if (area(inside) > 0 && area(inside) >= least * area(box)) return inside;
  return std::nullopt;
}

Box flip_horizontal(const Box& box, ImageSize image) {
  const auto width = static_cast<float>(image.width);
  return {width - box.right, box.top, width - box.left, box.bottom};
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
  const std::array<std::array<float, 2>, 4> corners{
      {{box.left, box.top}, {box.right, box.top}, {box.right, box.bottom}, {box.left, box.bottom}}};
  Box hull;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const auto [x, y] = corners[i];
    const auto moved_x = static_cast<float>(m[0] * x + m[1] * y + m[2]);
    const auto moved_y = static_cast<float>(m[3] * x + m[4] * y + m[5]);
    if (i == 0) hull = {moved_x, moved_y, moved_x, moved_y};
    hull = {std::min(hull.left, moved_x),
            std::min(hull.top, moved_y),
            std::max(hull.right, moved_x),
            std::max(hull.bottom, moved_y)};
  }
  return hull;
}

}  // namespace ddp::worker
