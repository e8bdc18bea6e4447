#include "worker/image/byte_floats.h"

#include <array>

#include "worker/image/byte_floats_x86.h"

namespace ddp::worker {
namespace {

constexpr std::array<float, 256> kNumbers = [] {
  std::array<float, 256> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i) / 255;
  return numbers;
}();

}  // namespace

void write_floats(const std::uint8_t* planes, std::size_t count, float* into) {
  for (std::size_t i = 0; i < count; ++i, into += 3) {
    into[0] = kNumbers[planes[i]];
    into[1] = kNumbers[planes[count + i]];
    into[2] = kNumbers[planes[2 * count + i]];
  }
}

const std::vector<FloatWay>& float_ways() {
  static const std::vector<FloatWay> kWays = [] {
    std::vector<FloatWay> ways{{"plain", write_floats}};
    for (const FloatWay& way : float_ways_of_x86())
      ways.push_back(way);
    return ways;
  }();
  return kWays;
}

}  // namespace ddp::worker
