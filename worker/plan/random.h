// Counter-based random numbers: each is a pure function of a key and a counter. So a checkpoint
// needs no generator state, and neither threads nor a resume change the numbers.
#pragma once

#include <cstdint>

namespace ddp::worker {

/// A seed for torch's default generator, from three numbers that say where it is used: (seed, step,
/// rank). Neighbouring numbers give unrelated seeds.
/// Source: SplitMix64's finalizer (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, OOPSLA 2014), applied to each number in turn.
std::uint64_t counted_seed(std::uint64_t first, std::uint64_t second, std::uint64_t third);

/// The random numbers of one sample in one epoch: the same, no matter who draws them, and when.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index)
      : state_(counted_seed(seed, epoch, index)), epoch_(epoch) {}

  /// For augmentations that are switched off some epochs before the end.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }

  /// 64 random bits (SplitMix64).
  std::uint64_t next();
  /// In [0, 1), a multiple of 2^-53.
  double uniform();
  /// In [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In [-most, most).
  double within(double most) { return uniform(-most, most); }
  /// In [0, count). Precondition: count > 0. Its bias is below count / 2^64.
  std::uint64_t below(std::uint64_t count) { return next() % count; }

 private:
  std::uint64_t state_;
  std::uint64_t epoch_;
};

}  // namespace ddp::worker
