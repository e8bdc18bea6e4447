// Large blocks of memory that are mapped once and used again.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace ddp::worker {

/// What a BlockCache holds, in bytes.
struct BlockSizes {
  std::size_t used = 0;
  std::size_t idle = 0;       // given back, and still mapped
  std::size_t peak_used = 0;  // the most that was ever used at once
};

/// Blocks are at least as large as asked for, by at most an eighth and a page. What is used and
/// idle is together at most 1.25 times the peak of what was used: idle blocks are unmapped for it,
/// the oldest first. Thread-safe.
class BlockCache {
 public:
  BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  /// Unmaps the idle blocks alone.
  ~BlockCache();

  /// The block starts on a page; its content is undefined. Null if the kernel has no memory for it,
  /// even without the idle blocks.
  void* take(std::size_t bytes);

  /// False for an address that is not that of a used block; nothing is done then.
  bool give_back(void* address);

  [[nodiscard]] BlockSizes sizes() const;

 private:
  struct Block {
    void* address;
    std::size_t bytes;
  };
  /// Of the idle blocks; their end if none fits.
  std::vector<Block>::iterator smallest_fit(std::size_t bytes);
  void* use(const Block& block);
  void unmap_oldest();

  mutable std::mutex mutex_;
  std::unordered_map<void*, std::size_t> used_;
  std::vector<Block> idle_;  // the oldest first
  BlockSizes sizes_;
};

}  // namespace ddp::worker
