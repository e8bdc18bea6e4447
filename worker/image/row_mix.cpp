#include "worker/image/row_mix.h"

#include <algorithm>
#include <array>
#include <utility>

#include "worker/image/row_mix_x86.h"
#include "worker/image/way.h"

namespace ddp::worker {
namespace {

/// What is read from all over the rows is put side by side first, so that the sums are vectors.
void mix_plain(const std::uint8_t* upper,
               const std::uint8_t* lower,
               int below,
               const MixedColumns& columns,
               std::uint8_t* into) {
  constexpr std::size_t kBlock = 64;
  std::array<std::uint16_t, kBlock> above_pairs;
  std::array<std::uint16_t, kBlock> below_pairs;
  const auto of_lower = static_cast<std::int16_t>(below);
  const auto of_upper = static_cast<std::int16_t>(kParts - below);
  for (std::size_t first = 0; first < columns.count(); first += kBlock) {
    const std::size_t count = std::min(kBlock, columns.count() - first);
    const std::uint8_t* const weights = columns.weights() + 2 * first;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t place = columns.places()[first + i];
      above_pairs[i] = read_pair(upper + place);
      below_pairs[i] = read_pair(lower + place);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::int16_t left = weights[2 * i];
      const std::int16_t right = weights[2 * i + 1];
      const auto mix_pair = [&](std::uint16_t pair) {
        return static_cast<std::int16_t>((pair & 255) * left + (pair >> 8) * right);
      };
      const int sum = mix_pair(above_pairs[i]) * of_upper + mix_pair(below_pairs[i]) * of_lower;
      into[first + i] = static_cast<std::uint8_t>((sum + kParts * kParts / 2) >> (2 * kPartBits));
    }
  }
}

}  // namespace

MixedColumns::MixedColumns(std::vector<std::int32_t> places,
                           const std::vector<std::uint8_t>& parts,
                           int width)
    : places_(std::move(places)), weights_((places_.size() + kAtOnce - 1) / kAtOnce * kAtOnce * 2) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    weights_[2 * i] = static_cast<std::uint8_t>(kParts - parts[i]);
    weights_[2 * i + 1] = parts[i];
  }
  find_starts(width);
}

void MixedColumns::find_starts(int width) {
  constexpr int kBytes = 2 * static_cast<int>(kHalf);
  if (width < kBytes) return;
  const std::size_t halves = weights_.size() / 2 / kHalf;
  starts_.resize(halves);
  picks_.resize(halves * kBytes);
  for (std::size_t half = 0; half < halves; ++half) {
    const std::size_t begin = half * kHalf;
    const std::size_t end = std::min(begin + kHalf, places_.size());
    if (begin >= end) continue;  // behind the last one: any columns, with weights of 0
    const auto [least, most] = std::minmax_element(places_.begin() + static_cast<long>(begin),
                                                   places_.begin() + static_cast<long>(end));
    // No byte behind the row is read.
    const std::int32_t start = std::min(*least, width - kBytes);
    if (*most + 1 - start >= kBytes) return starts_.clear();
    starts_[half] = start;
    for (std::size_t i = begin; i < end; ++i) {
      picks_[2 * i] = static_cast<std::uint8_t>(places_[i] - start);
      picks_[2 * i + 1] = static_cast<std::uint8_t>(places_[i] - start + 1);
    }
  }
}

const std::vector<MixWay>& mix_ways() {
  static const std::vector<MixWay> kWays = [] {
    std::vector<MixWay> ways{{"plain", mix_plain}};
    for (const MixWay& way : mix_ways_of_x86())
      ways.push_back(way);
    return ways;
  }();
  return kWays;
}

}  // namespace ddp::worker
