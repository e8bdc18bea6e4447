#include "worker/image/levels.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace ddp::worker {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Counts = std::array<std::uint32_t, 256>;

void look_up(std::span<std::uint8_t> values, const Table& table) {
  for (std::uint8_t& value : values)
    value = table[value];
}

/// Four counts side by side: with one, equal neighbours would wait for each other's increment.
Counts count_values(std::span<const std::uint8_t> values) {
  std::array<Counts, 4> parts{};
  std::size_t i = 0;
  for (; i + 4 <= values.size(); i += 4) {
    for (std::size_t part = 0; part < 4; ++part)
      ++parts[part][values[i + part]];
  }
  for (; i < values.size(); ++i)
    ++parts[0][values[i]];
  Counts counts{};
  for (const Counts& part : parts)
    std::transform(counts.begin(), counts.end(), part.begin(), counts.begin(), std::plus<>());
  return counts;
}

}  // namespace

void posterize(Image& image, int bits) {
  if (bits < 0 || bits > 8) throw std::logic_error("posterize: not 0 to 8 bits");
  const auto mask = static_cast<std::uint8_t>(0xFF00U >> static_cast<unsigned>(bits));
  for (std::uint8_t& value : image.bytes)
    value &= mask;
}

void solarize(Image& image, double threshold) {
  if (!(threshold >= 0 && threshold <= 255))
    throw std::logic_error("solarize: a threshold outside of 0 to 255");
  const auto first = static_cast<std::uint8_t>(std::ceil(threshold));
  for (std::uint8_t& value : image.bytes)
    value = static_cast<std::uint8_t>(value >= first ? 255 - value : value);
}

void autocontrast(Image& image) {
  for (int channel = 0; channel < image.channels && !image.bytes.empty(); ++channel) {
    const std::span plane = image.plane(channel);
    std::uint8_t least = 255;
    std::uint8_t most = 0;
    for (const std::uint8_t value : plane) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
    if (least == most) continue;
    const float scale = static_cast<float>(most - least) * static_cast<float>(1.0 / 255);
    Table table{};
    for (int value = least; value <= most; ++value) {
      const float stretched = static_cast<float>(value - least) / scale;
      table[static_cast<std::size_t>(value)] =
          static_cast<std::uint8_t>(std::clamp(stretched, 0.0F, 255.0F));
    }
    look_up(plane, table);
  }
}

void equalize(Image& image) {
  for (int channel = 0; channel < image.channels && !image.bytes.empty(); ++channel) {
    const std::span plane = image.plane(channel);
    const Counts counts = count_values(plane);
    const auto last = std::find_if(counts.rbegin(), counts.rend(), [](auto n) { return n != 0; });
    // Pillow's step: how many pixels each of the 255 values above 0 should get.
    const std::size_t step = (plane.size() - *last) / 255;
    if (step == 0) continue;
    Table table{};
    std::size_t below = 0;
    for (std::size_t value = 1; value < 256; ++value) {
      below += counts[value - 1];
      table[value] =
          static_cast<std::uint8_t>(std::min<std::size_t>((below + step / 2) / step, 255));
    }
    look_up(plane, table);
  }
}

}  // namespace ddp::worker
