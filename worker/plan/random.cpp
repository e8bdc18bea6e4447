#include "worker/plan/random.h"

#include <initializer_list>

namespace ddp::worker {
namespace {

constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15;  // the golden ratio, odd

std::uint64_t mix(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

}  // namespace

std::uint64_t counted_seed(std::uint64_t first, std::uint64_t second, std::uint64_t third) {
  std::uint64_t seed = 0;
  for (const std::uint64_t number : {first, second, third})
    seed = mix(seed + kGamma + number);
  return seed;
}

std::uint64_t Random::next() {
  state_ += kGamma;
  return mix(state_);
}

double Random::uniform() {
  constexpr double kUnit = 0x1p-53;
  return static_cast<double>(next() >> 11) * kUnit;
}

}  // namespace ddp::worker
