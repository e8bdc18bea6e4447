#include "worker/train/block_cache.h"

#include <sys/mman.h>

#include <algorithm>

namespace ddp::worker {
namespace {

constexpr std::size_t kPage = 4096;

/// Of a peak of used bytes, how much may be mapped. A step's backward needs a few sizes that its
/// forward does not; without room for them, the blocks of one would push out those of the other.
std::size_t most_mapped(std::size_t peak_used) {
  return peak_used + peak_used / 4;
}

/// Null if there is no memory.
void* map(std::size_t bytes) {
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  ::madvise(address, bytes, MADV_HUGEPAGE);
  return address;
}

}  // namespace

BlockCache::~BlockCache() {
  while (!idle_.empty())
    unmap_oldest();
}

void* BlockCache::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t whole_pages = (bytes + kPage - 1) / kPage * kPage;
  if (const auto fit = smallest_fit(whole_pages); fit != idle_.end()) {
    const Block block = *fit;
    idle_.erase(fit);
    sizes_.idle -= block.bytes;
    return use(block);
  }
  const std::size_t will_be_used = sizes_.used + whole_pages;
  const std::size_t most = most_mapped(std::max(sizes_.peak_used, will_be_used));
  while (!idle_.empty() && will_be_used + sizes_.idle > most)
    unmap_oldest();
  void* address = map(whole_pages);
  if (address == nullptr) {
    while (!idle_.empty())
      unmap_oldest();
    address = map(whole_pages);
  }
  return address == nullptr ? nullptr : use({address, whole_pages});
}

bool BlockCache::give_back(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(address);
  if (found == used_.end()) return false;
  sizes_.used -= found->second;
  sizes_.idle += found->second;
  idle_.push_back({address, found->second});
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

void BlockCache::unmap_oldest() {
  const Block oldest = idle_.front();
  idle_.erase(idle_.begin());
  ::munmap(oldest.address, oldest.bytes);
  sizes_.idle -= oldest.bytes;
}

}  // namespace ddp::worker
