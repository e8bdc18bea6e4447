#include "worker/dist/block_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>

namespace ddp::worker {
namespace {

constexpr std::size_t kPageBytes = 4096;
/// From here on huge pages are worth it: at its ends, a block has up to 4 MiB without them.
constexpr std::size_t kLeastInHugePages = 8 << 20;
/// No block is larger: sizes above are errors, and would overflow.
constexpr std::size_t kMostBytes = std::numeric_limits<std::ptrdiff_t>::max() / 2;

/// How much may be mapped, used and idle. A step's backward needs a few sizes that its forward does
/// not. Without room for them, the blocks of one would push out those of the other.
std::size_t most_mapped(std::size_t peak_used) {
  return peak_used + peak_used / 4;
}

/// Null if there is no memory.
void* map_pages(std::size_t bytes) {
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  if (bytes >= kLeastInHugePages) ::madvise(address, bytes, MADV_HUGEPAGE);
  return address;
}

}  // namespace

BlockCache::~BlockCache() {
  keep_idle(0);
}

void* BlockCache::take(std::size_t bytes) {
  if (bytes > kMostBytes) return nullptr;
  const std::lock_guard lock(mutex_);
  const std::size_t whole_pages = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  idle_.reserve(idle_.size() + used_.size() + 1);
  if (const auto fit = smallest_fit(whole_pages); fit != idle_.end()) {
    const Block block = *fit;
    idle_.erase(fit);
    sizes_.idle -= block.bytes;
    return use(block);
  }
  const std::size_t will_be_used = sizes_.used + whole_pages;
  const std::size_t most = most_mapped(std::max(sizes_.peak_used, will_be_used));
  keep_idle(most - will_be_used);
  void* address = map_pages(whole_pages);
  if (address == nullptr) {
    keep_idle(0);
    address = map_pages(whole_pages);
  }
  return address == nullptr ? nullptr : use({address, whole_pages});
}

bool BlockCache::give_back(void* address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(address);
  if (found == used_.end()) return false;
  sizes_.used -= found->second;
  sizes_.idle += found->second;
  idle_.push_back({address, found->second});  // take() has reserved its place
  used_.erase(found);
  return true;
}

BlockSizes BlockCache::sizes() const {
  const std::lock_guard lock(mutex_);
  return sizes_;
}

std::vector<BlockCache::Block>::iterator BlockCache::smallest_fit(std::size_t bytes) {
  auto smallest = idle_.end();
  for (auto block = idle_.begin(); block != idle_.end(); ++block) {
    const bool fits = block->bytes >= bytes && block->bytes <= bytes + bytes / 8;
    if (fits && (smallest == idle_.end() || block->bytes < smallest->bytes)) smallest = block;
  }
  return smallest;
}

void* BlockCache::use(const Block& block) {
  used_.emplace(block.address, block.bytes);
  sizes_.used += block.bytes;
  sizes_.peak_used = std::max(sizes_.peak_used, sizes_.used);
  return block.address;
}

void BlockCache::keep_idle(std::size_t most) {
  auto kept = idle_.begin();
  for (; kept != idle_.end() && sizes_.idle > most; ++kept) {
    ::munmap(kept->address, kept->bytes);
    sizes_.idle -= kept->bytes;
  }
  idle_.erase(idle_.begin(), kept);
}

}  // namespace ddp::worker
