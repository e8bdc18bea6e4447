#include "worker/plan/shard.h"

#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

namespace ddp::worker {
namespace {

// torch.randperm on CPU: Fisher-Yates from the front, one 32-bit draw per place but the last.
// std::mt19937 is torch's engine; the modulo bias is theirs and must be kept.
void permute(std::vector<std::int64_t>& numbers, std::uint64_t seed) {
  std::mt19937 engine(static_cast<std::uint32_t>(seed));  // torch seeds with the low 32 bits too
  const std::size_t size = numbers.size();
  for (std::size_t i = 0; i + 1 < size; ++i)
    std::swap(numbers[i], numbers[i + engine() % (size - i)]);
}

void check_place(std::int64_t size, int world_size, int rank) {
  if (size >= 0 && size <= kMaxShardedSize && world_size >= 1 && rank >= 0 && rank < world_size)
    return;
  throw std::logic_error("cannot shard " + std::to_string(size) + " samples for rank " +
                         std::to_string(rank) + " of " + std::to_string(world_size));
}

}  // namespace

std::int64_t shard_size(const ShardOptions& options) {
  const std::int64_t per_rank = options.size / options.world_size;
  const bool fills = options.size % options.world_size == 0;
  return fills || options.drop_last ? per_rank : per_rank + 1;
}

std::vector<std::int64_t> permutation(const ShardOptions& options, std::int64_t epoch) {
  check_place(options.size, options.world_size, options.rank);
  if (options.size == 0) throw std::logic_error("cannot shard an empty data set");
  std::vector<std::int64_t> order(static_cast<std::size_t>(options.size));
  std::iota(order.begin(), order.end(), 0);
  if (options.shuffle) permute(order, options.seed + static_cast<std::uint64_t>(epoch));
  return order;
}

std::vector<std::int64_t> shard(const ShardOptions& options, std::int64_t epoch) {
  const std::vector<std::int64_t> order = permutation(options, epoch);
  // Python pads the list with its own head, then strides over it; the same by index.
  std::vector<std::int64_t> samples(static_cast<std::size_t>(shard_size(options)));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t place =
        static_cast<std::size_t>(options.rank) + i * static_cast<std::size_t>(options.world_size);
    samples[i] = order[place % order.size()];
  }
  return samples;
}

std::vector<std::int64_t> evaluation_shard(std::int64_t size, int world_size, int rank) {
  check_place(size, world_size, rank);
  std::vector<std::int64_t> samples;
  samples.reserve(static_cast<std::size_t>(size / world_size + 1));
  for (std::int64_t i = rank; i < size; i += world_size)
    samples.push_back(i);
  return samples;
}

std::vector<std::vector<std::int64_t>> in_batches(std::span<const std::int64_t> samples,
                                                  std::int64_t batch) {
  std::vector<std::vector<std::int64_t>> batches;
  while (!samples.empty()) {
    const auto next = samples.first(std::min(samples.size(), static_cast<std::size_t>(batch)));
    batches.emplace_back(next.begin(), next.end());
    samples = samples.subspan(next.size());
  }
  return batches;
}

}  // namespace ddp::worker
