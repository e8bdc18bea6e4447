// Copies much memory at once, on as many threads as LibTorch computes with.
// Past the cache: what is written is not read again soon, and a store through the cache would read
// each line of memory first, that it replaces. A third of the traffic less.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ddp::worker {

struct BytesToCopy {
  std::span<const std::byte> from;
  std::byte* to = nullptr;  // as many bytes, of other memory
};

/// Copies them all. Blocks: until it is done.
void bulk_copy(const std::vector<BytesToCopy>& pieces);

}  // namespace ddp::worker
