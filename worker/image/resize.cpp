#include "worker/image/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>

namespace ddp::worker {
namespace {

// Numbers of 16 bits in a vector.
constexpr int kVector = 8;

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

/// In whole vectors, and of numbers of one width: GCC makes a multiply-add of eight out of it.
std::int32_t dot(const std::int16_t* pixels, const std::int16_t* weights, int count) {
  std::int32_t sum = 0;
  for (int group = 0; group < count; group += kVector) {
    for (int i = 0; i < kVector; ++i)
      sum += pixels[group + i] * weights[group + i];
  }
  return sum;
}

void add_row(const std::uint8_t* __restrict row,
             std::int16_t weight,
             std::span<std::int32_t> sums) {
  std::int32_t* __restrict sum = sums.data();
  for (std::size_t x = 0; x < sums.size(); ++x)
    sum[x] += static_cast<std::int16_t>(row[x]) * weight;
}

void round_sums(std::span<const std::int32_t> sums, int shift, std::uint8_t* __restrict into) {
  const std::int32_t* __restrict sum = sums.data();
  const std::int32_t half = 1 << (shift - 1);
  for (std::size_t x = 0; x < sums.size(); ++x) {
    const std::int32_t value = (sum[x] + half) >> shift;
    into[x] = static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
  }
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
  stride = (taps + kVector - 1) / kVector * kVector;
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

void Resizer::resize_rows(const Image& from, const Region& region, int channel, int width) {
  for (int y = 0; y < region.height; ++y) {
    const std::uint8_t* row = from.row(channel, region.top + y) + region.left;
    std::copy(row, row + region.width, row_.begin());
    for (std::size_t x = 0; x < sums_.size(); ++x)
      sums_[x] = dot(row_.data() + across_.first[x], across_.weights(x), across_.stride);
    round_sums(sums_, across_.shift, rows_.data() + static_cast<std::ptrdiff_t>(y) * width);
  }
}

void Resizer::resize(const Image& from, const Region& region, ImageSize size, Image& into) {
  if (!is_inside(region, from.size()) || size.height <= 0 || size.width <= 0)
    throw std::logic_error("a resize of no pixel, or of some outside of the image");
  into.reshape(from.channels, size);
  across_.prepare(region.width, size.width);
  down_.prepare(region.height, size.height);
  row_.assign(static_cast<std::size_t>(region.width + across_.stride), 0);
  sums_.resize(static_cast<std::size_t>(size.width));
  rows_.resize(static_cast<std::size_t>(region.height) * static_cast<std::size_t>(size.width));
  for (int channel = 0; channel < from.channels; ++channel) {
    resize_rows(from, region, channel, size.width);
    for (int y = 0; y < size.height; ++y) {
      const int first = down_.first[static_cast<std::size_t>(y)];
      const std::int16_t* weights = down_.weights(static_cast<std::size_t>(y));
      std::fill(sums_.begin(), sums_.end(), 0);
      for (int tap = 0; tap < std::min(down_.taps, region.height - first); ++tap)
        add_row(rows_.data() + std::ptrdiff_t{first + tap} * size.width, weights[tap], sums_);
      round_sums(sums_, down_.shift, into.row(channel, y));
    }
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
