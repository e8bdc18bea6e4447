#include "worker/data/sets/ground_truth.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace ddp::worker {
namespace {

constexpr double kMaxArea = 1e30;  // larger than any image, and still a float

void append(const AnnotatedBox& one, bool is_crowd, ImageSize image, std::vector<float>& rows) {
  const Box& box = one.box;
  const double share = one.area.value_or((static_cast<double>(box.right) - box.left) *
                                         (static_cast<double>(box.bottom) - box.top));
  const double area = share * image.width * image.height;
  const auto across = static_cast<float>(image.width);
  const auto down = static_cast<float>(image.height);
  const std::array<float, kGroundTruthRow> row{static_cast<float>(one.label),
                                               box.left * across,
                                               box.top * down,
                                               box.right * across,
                                               box.bottom * down,
                                               static_cast<float>(std::min(area, kMaxArea)),
                                               is_crowd ? 1.0F : 0.0F};
  rows.insert(rows.end(), row.begin(), row.end());
}

}  // namespace

void add_ground_truth(const AnnotatedImage& image, Sample& sample) {
  const std::vector<std::int64_t>& shape = sample.input.shape;
  const ImageSize size{static_cast<int>(shape.at(1)), static_cast<int>(shape.at(2))};
  std::vector<float> rows;
  for (const AnnotatedBox& box : image.boxes)
    append(box, /*is_crowd=*/false, size, rows);
  for (const AnnotatedBox& box : image.crowds)
    append(box, /*is_crowd=*/true, size, rows);
  sample.targets.resize(kGroundTruthTargets);
  const auto count = static_cast<std::int64_t>(image.boxes.size() + image.crowds.size());
  sample.targets[kGroundTruthRows].assign({count, kGroundTruthRow}, std::span<const float>(rows));
  sample.targets[kFileHeight].assign({}, std::span(shape).subspan(1, 1));
  sample.targets[kFileWidth].assign({}, std::span(shape).subspan(2, 1));
}

}  // namespace ddp::worker
