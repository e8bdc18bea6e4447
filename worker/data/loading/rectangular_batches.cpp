#include "worker/data/loading/rectangular_batches.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "worker/data/augment/crops.h"
#include "worker/image/resize.h"

namespace ddp::worker {

ImageSize rectangle_of(ImageSize image, int side, int multiple) {
  const ImageSize resized = resized_larger_side(image, side);
  const auto fill = [&](int length) {
    return std::min(side, (length + multiple - 1) / multiple * multiple);
  };
  return {fill(resized.height), fill(resized.width)};
}

RectangularBatches::RectangularBatches(std::span<const std::optional<ImageSize>> sizes,
                                       int side,
                                       int multiple) {
  for (const std::optional<ImageSize>& size : sizes)
    rectangles_.push_back(size ? rectangle_of(*size, side, multiple) : ImageSize{side, side});
}

Augment RectangularBatches::letterbox() const {
  return [rectangles = rectangles_](Sample& sample, Random&, const Source&) {
    letterbox_into(sample, rectangles.at(static_cast<std::size_t>(sample.index)));
  };
}

std::vector<std::vector<std::int64_t>> RectangularBatches::batches(int world_size,
                                                                   int rank,
                                                                   std::int64_t batch) const {
  std::vector<std::int64_t> order(rectangles_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rectangle = [this](std::int64_t sample) {
    return rectangles_[static_cast<std::size_t>(sample)];
  };
  std::ranges::stable_sort(order, std::greater(), [&](std::int64_t sample) {
    const auto [height, width] = rectangle(sample);
    return std::tuple(std::int64_t{height} * width, height);
  });
  std::vector<std::vector<std::int64_t>> batches;
  const auto step = static_cast<std::size_t>(world_size);
  for (auto place = static_cast<std::size_t>(rank); place < order.size(); place += step) {
    const std::int64_t sample = order[place];
    const bool is_alike = !batches.empty() && std::ssize(batches.back()) < batch &&
                          rectangle(batches.back().front()) == rectangle(sample);
    if (!is_alike) batches.emplace_back();
    batches.back().push_back(sample);
  }
  return batches;
}

}  // namespace ddp::worker
