#include "worker/task/multi_scale.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "worker/plan/random.h"

namespace ddp::worker {
namespace {

constexpr double kRounding = 1e-9;  // so that 640 * (1 - 0.3) is 448

/// The lengths of the larger side that may be drawn, in multiples. last < first: there are none.
struct Lengths {
  std::int64_t first = 1;
  std::int64_t last = 0;
};

Lengths lengths_of(double larger, double most, double unit) {
  const auto first =
      std::max(static_cast<std::int64_t>(std::ceil(larger * (1 - most) / unit - kRounding)),
               std::min<std::int64_t>(2, std::llround(larger / unit)));
  const auto last = static_cast<std::int64_t>(std::floor(larger * (1 + most) / unit + kRounding));
  return first < 1 ? Lengths{} : Lengths{first, last};
}

}  // namespace

bool has_scales(ImageSize size, double most, std::int64_t multiple) {
  const auto [first, last] =
      lengths_of(std::max(size.height, size.width), most, static_cast<double>(multiple));
  return last > first;
}

ImageSize draw_scale(ImageSize size, double most, std::int64_t multiple, std::uint64_t seed) {
  const auto unit = static_cast<double>(multiple);
  const double larger = std::max(size.height, size.width);
  const auto [first, last] = lengths_of(larger, most, unit);
  if (last < first) return size;
  Random random(seed, 0, 0);
  const auto count = static_cast<std::uint64_t>(last - first + 1);
  const auto drawn = static_cast<double>(first + static_cast<std::int64_t>(random.below(count)));
  const auto side = [&](int before) {
    const double units = std::round(before / larger * drawn);
    const double least = std::min(2.0, std::ceil(before / unit));
    return static_cast<int>(std::max(units, least) * unit);
  };
  return {side(size.height), side(size.width)};
}

Batch resize_batch(const Batch& batch, ImageSize size) {
  const at::Tensor& input = batch.input;
  const double down = static_cast<double>(size.height) / static_cast<double>(input.size(2));
  const double across = static_cast<double>(size.width) / static_cast<double>(input.size(3));
  if (down == 1 && across == 1) return batch;
  Batch resized = batch;
  const at::Tensor numbers = input.is_floating_point() ? input : input.to(at::kFloat);
  const std::array<std::int64_t, 2> sides{size.height, size.width};
  resized.input = at::upsample_bilinear2d(numbers, sides, /*align_corners=*/false);
  at::Tensor& rows = resized.targets.at(0).values;  // class, left, top, right, bottom
  rows = rows.clone();
  rows.slice(1, 1, 5, 2).mul_(across);
  rows.slice(1, 2, 5, 2).mul_(down);
  return resized;
}

}  // namespace ddp::worker
