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

// Pixels that sum_pixels() computes at once.
constexpr int kTogether = 4;

/// The weights of one pixel: a triangle as wide as what the pixel covers. Returns how many there
/// are, at most as many as there is room. `first` is the source pixel of the first weight.
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

void Resizer::prepare(ImageSize from, ImageSize size, std::size_t pixel_bytes) {
  if (size.height <= 0 || size.width <= 0 || from.height <= 0 || from.width <= 0)
    throw std::logic_error("a resize of no pixel, or to none");
  across_.prepare(from.width, size.width);
  down_.prepare(from.height, size.height);
  const std::size_t bytes = static_cast<std::size_t>(size.width) * pixel_bytes;
  row_bytes_ = (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
  rows_.resize(static_cast<std::size_t>(from.height) * row_bytes_);
  result_.resize(row_bytes_);
  put_ = 0;
}

void Resizer::sum_pixels(const std::uint8_t* pixels, std::uint8_t* into) const {
  kernel_.pixels(pixels,
                 across_.first.data(),
                 across_.numbers.data(),
                 static_cast<std::size_t>(across_.stride),
                 across_.shift,
                 static_cast<std::size_t>(across_.to),
                 into);
}

/// The new row `y`; valid until the next call.
const std::uint8_t* Resizer::sum_rows(int y) {
  const int first = down_.first[static_cast<std::size_t>(y)];
  kernel_.rows(rows_.data() + static_cast<std::size_t>(first) * row_bytes_,
               row_bytes_,
               down_.weights(static_cast<std::size_t>(y)),
               static_cast<std::size_t>(std::min(down_.taps, down_.from - first)),
               down_.shift,
               result_.data());
  return result_.data();
}

void Resizer::begin(ImageSize from, ImageSize size) {
  prepare(from, size, kPixel);
}

void Resizer::put_row(const std::uint8_t* pixels) {
  sum_pixels(pixels, rows_.data() + put_++ * row_bytes_);
}

void Resizer::finish(Image& into) {
  if (put_ != static_cast<std::size_t>(down_.from))
    throw std::logic_error("a resize that has not got all rows");
  into.reshape(3, {down_.to, across_.to});
  for (int y = 0; y < down_.to; ++y)
    split_row(sum_rows(y), y, into);
}

/// Resizes four rows at a time, as if they were the colors of one row.
void Resizer::resize_grey(const Image& from, const Region& region, Image& into) {
  prepare(region.size(), into.size(), 1);
  const auto width = static_cast<std::size_t>(region.width);
  const auto new_width = static_cast<std::size_t>(into.width);
  pixels_.resize((width + room()) * kPixel);
  four_.resize(new_width * kPixel);
  for (int top = 0; top < region.height; top += 4) {
    // At the end the last row is repeated.
    const auto place = [&](int i) { return std::min(top + i, region.height - 1); };
    const auto old_row = [&](int i) { return from.row(0, region.top + place(i)) + region.left; };
    const auto new_row = [&](int i) {
      return rows_.data() + static_cast<std::size_t>(place(i)) * row_bytes_;
    };
    interleave({old_row(0), old_row(1), old_row(2), old_row(3)}, width, pixels_.data());
    sum_pixels(pixels_.data(), four_.data());
    separate(four_.data(), new_width, {new_row(0), new_row(1), new_row(2), new_row(3)});
  }
  for (int y = 0; y < into.height; ++y)
    write_grey_row(sum_rows(y), y, into);
}

void Resizer::resize(const Image& from, const Region& region, ImageSize size, Image& into) {
  if (!is_inside(region, from.size()) || size.height <= 0 || size.width <= 0)
    throw std::logic_error("a resize of no pixel, or of some outside of the image");
  if (from.channels == 1) {
    into.reshape(1, size);
    return resize_grey(from, region, into);
  }
  begin(region.size(), size);
  pixels_.resize((static_cast<std::size_t>(region.width) + room()) * kPixel);
  for (int y = 0; y < region.height; ++y) {
    const auto row = [&](int channel) { return from.row(channel, region.top + y) + region.left; };
    // Any row will do for the unused byte.
    interleave(
        {row(0), row(1), row(2), row(2)}, static_cast<std::size_t>(region.width), pixels_.data());
    put_row(pixels_.data());
  }
  finish(into);
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
