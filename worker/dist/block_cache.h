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

/// Keeps blocks that were given back, for later calls. Used and idle blocks together take at most
/// 1.25 times the most that was ever used at once. To stay below that, the blocks that are idle for
/// longest are unmapped. Thread-safe.
class BlockCache {
 public:
  BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  /// Unmaps the idle blocks. Used blocks stay mapped.
  ~BlockCache();

  /// A block that starts on a page and is larger than `bytes` by at most an eighth and a page. Its
  /// content is undefined. Null if the kernel has no memory for it, even without the idle blocks.
  void* take(std::size_t bytes);

  /// False for an address that is not that of a used block; nothing is done then.
  bool give_back(void* address) noexcept;

  [[nodiscard]] BlockSizes sizes() const;

 private:
  struct Block {
    void* address;
    std::size_t bytes;
  };
  /// An idle block, or idle_.end().
  std::vector<Block>::iterator smallest_fit(std::size_t bytes);
  void* use(const Block& block);
  /// Unmaps the blocks that are idle for longest, until at most `most` bytes are idle.
  void keep_idle(std::size_t most);

  mutable std::mutex mutex_;
  std::unordered_map<void*, std::size_t> used_;
  std::vector<Block> idle_;  // the one that is idle for longest first; with room for all used ones
  BlockSizes sizes_;
};

}  // namespace ddp::worker
