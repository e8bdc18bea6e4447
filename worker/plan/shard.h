// The permutation of an epoch, bit for bit as in Python's DistributedSampler, without Torch;
// worker/plan/partition divides it among steps and ranks. Also the samples that a rank evaluates.
// Promises: a pure function of the options and the epoch, so that a resumed run needs no sampler
// state.
// Trap: torch::data::samplers::DistributedRandomSampler differs from Python (seed = epoch only,
// std::shuffle), so it is not used.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddp::worker {

struct ShardOptions {
  std::int64_t size = 0;  // samples of the data set
  int world_size = 1;
  int rank = 0;
  std::uint64_t seed = 0;  // the same on every rank
  bool shuffle = true;
  bool drop_last = false;  // drop the tail instead of repeating the head

  bool operator==(const ShardOptions&) const = default;
};

/// The samples of the whole data set in the order of an epoch; rank and world size play no part.
/// Errors: std::logic_error for an empty set or more samples than kMaxShardedSize.
/// Source: aten/src/ATen/native/TensorFactories.cpp (randperm_cpu) of torch 2.11.
std::vector<std::int64_t> permutation(const ShardOptions& options, std::int64_t epoch);

/// How many samples one rank gets in one epoch; the same on every rank.
/// Units: ceil(size / world_size), or floor with drop_last (0 when there are fewer samples than
/// ranks).
std::int64_t shard_size(const ShardOptions& options);

/// Samples of `options.rank` in `epoch`, in the order of Python's DistributedSampler(seed, shuffle,
/// drop_last) after set_epoch(epoch).
/// Shapes: shard_size numbers in [0, size); the head of the permutation fills the last gap, several
/// times when there are fewer samples than ranks need.
/// Errors: std::logic_error for an empty set, a rank outside its world, or more samples than
/// kMaxShardedSize.
/// Source: torch/utils/data/distributed.py and aten/src/ATen/native/TensorFactories.cpp
/// (randperm_cpu) of torch 2.11.
std::vector<std::int64_t> shard(const ShardOptions& options, std::int64_t epoch);

/// For larger sets torch draws its permutation from 64-bit numbers, which is not implemented here.
inline constexpr std::int64_t kMaxShardedSize = 0xFFFFFFFF / 20 - 1;

/// The samples that `rank` evaluates: rank, rank + world_size, ... Unlike in shard(), each sample
/// goes to exactly one rank, so that sums over ranks are exact; some ranks may have one sample less
/// than others, or none.
std::vector<std::int64_t> evaluation_shard(std::int64_t size, int world_size, int rank);

/// Splits the samples of one rank into batches of at most `batch`, in their order.
std::vector<std::vector<std::int64_t>> in_batches(std::span<const std::int64_t> samples,
                                                  std::int64_t batch);

}  // namespace ddp::worker
