// Copies much memory at once, on as many threads as LibTorch computes with.
// Copies past the cache: the bytes are not read again soon, and a store through the cache would
// first read each line that it replaces. This saves a third of the memory traffic.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ddp::worker {

struct BytesToCopy {
  std::span<const std::byte> from;
  std::byte* to = nullptr;  // equally many bytes, of other memory
};

/// Copies all pieces. Blocks: until that is done.
void bulk_copy(const std::vector<BytesToCopy>& pieces);

}  // namespace ddp::worker
