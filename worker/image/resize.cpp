#include "worker/image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>

#include "worker/image/pixel_rows.h"
#include "worker/image/weighted_sums.h"

namespace ddp::worker {
namespace {

// Pixels that sum_pixels() takes at once.
constexpr int kTogether = 4;

/// The weights of one pixel and how many they are, at most as many as there is room: a triangle as
/// wide as what the pixel covers. `first` is where they begin.
/// Source: torch's _compute_indices_min_size_weights_aa.
int weigh(int pixel, int from, double scale, std::span<double> into, int& first) {
  const double support = std::max(scale, 1.0);
  const double center = scale * (pixel + 0.5);
  first = std::max(static_cast<int>(center - support + 0.5), 0);
  const int end = std::min(static_cast<int>(center + support + 0.5), from);
  const std::span weights =
      into.first(std::min(into.size(), static_cast<std::size_t>(std::max(end - first, 0))));
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double place = (static_cast<double>(i) + first - center + 0.5) * (1 / support);
    weights[i] = std::max(1 - std::abs(place), 0.0);
    total += weights[i];
  }
  for (double& weight : weights)
    weight /= total;
  return static_cast<int>(weights.size());
}

/// As many bits as the largest weight leaves in 15.
int bits_for(double largest) {
  int bits = 0;
  while (bits < 22 && static_cast<int>(0.5 + largest * (1 << (bits + 1))) < 1 << 15)
    ++bits;
  return bits;
}

}  // namespace

void Resizer::Weights::prepare(int new_from, int new_to) {
  if (from == new_from && to == new_to) return;
  const double scale = static_cast<double>(new_from) / new_to;
  const auto pixels = static_cast<std::size_t>(new_to);
  const auto room = static_cast<std::size_t>(std::ceil(std::max(scale, 1.0))) * 2 + 1;
  exact.assign(pixels * room, 0);
  first.resize(pixels);
  taps = 0;
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::span weights = std::span(exact).subspan(i * room, room);
    taps = std::max(taps, weigh(static_cast<int>(i), new_from, scale, weights, first[i]));
  }
  stride = (taps + kTogether - 1) / kTogether * kTogether;
  shift = bits_for(*std::max_element(exact.begin(), exact.end()));
  numbers.assign(pixels * static_cast<std::size_t>(stride), 0);
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t tap = 0; tap < static_cast<std::size_t>(taps); ++tap)
      numbers[i * static_cast<std::size_t>(stride) + tap] =
          static_cast<std::int16_t>(0.5 + exact[i * room + tap] * (1 << shift));
  }
  from = new_from;
  to = new_to;
}

void Resizer::resize_rows(const Image& from, const Region& region) {
  const auto width = static_cast<std::size_t>(region.width);
  // Of a grey image its one plane three times: split_row() makes the same grey of them.
  const int last = from.channels - 1;
  for (int y = 0; y < region.height; ++y) {
    const auto plane = [&](int channel) {
      return from.row(std::min(channel, last), region.top + y) + region.left;
    };
    interleave(plane(0), plane(1), plane(2), width, row_.data());
    sum_pixels(row_.data(),
               across_.first.data(),
               across_.numbers.data(),
               static_cast<std::size_t>(across_.stride),
               across_.shift,
               static_cast<std::size_t>(across_.to),
               rows_.data() + static_cast<std::size_t>(y) * row_bytes_);
  }
}

void Resizer::resize(const Image& from, const Region& region, ImageSize size, Image& into) {
  if (!is_inside(region, from.size()) || size.height <= 0 || size.width <= 0)
    throw std::logic_error("a resize of no pixel, or of some outside of the image");
  into.reshape(from.channels, size);
  across_.prepare(region.width, size.width);
  down_.prepare(region.height, size.height);
  row_.assign(static_cast<std::size_t>(region.width + across_.stride) * kPixel, 0);
  row_bytes_ = (static_cast<std::size_t>(size.width) * kPixel + kVectorBytes - 1) / kVectorBytes *
               kVectorBytes;
  rows_.resize(static_cast<std::size_t>(region.height) * row_bytes_);
  result_.resize(row_bytes_);
  resize_rows(from, region);
  for (int y = 0; y < size.height; ++y) {
    const int first = down_.first[static_cast<std::size_t>(y)];
    sum_rows(rows_.data() + static_cast<std::size_t>(first) * row_bytes_,
             row_bytes_,
             down_.weights(static_cast<std::size_t>(y)),
             static_cast<std::size_t>(std::min(down_.taps, region.height - first)),
             down_.shift,
             result_.data());
    split_row(result_.data(), y, into);
  }
}

ImageSize resized_smaller_side(ImageSize image, int smaller) {
  const auto longer = [&](int side, int shorter) {
    return static_cast<int>(std::int64_t{smaller} * side / shorter);
  };
  if (image.width <= image.height) return {longer(image.height, image.width), smaller};
  return {smaller, longer(image.width, image.height)};
}

ImageSize resized_larger_side(ImageSize image, int larger) {
  const double scale = static_cast<double>(larger) / std::max(image.height, image.width);
  const auto scaled = [&](int side) {
    return std::max(1, static_cast<int>(std::lround(side * scale)));
  };
  return {scaled(image.height), scaled(image.width)};
}

}  // namespace ddp::worker
