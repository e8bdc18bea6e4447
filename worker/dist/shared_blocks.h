// Memory for tensors that the other ranks of a node can map: blocks of one file without a name.
// Trap: a block that was given back may still be mapped by a peer. So no part of the file is used
// twice; what was given back holds no memory (fallocate(2), FALLOC_FL_PUNCH_HOLE), unless a peer
// still writes there.
#pragma once

#include <ATen/core/Tensor.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "common/files/descriptor.h"

namespace ddp::worker {

class SharedBlocks : public std::enable_shared_from_this<SharedBlocks> {
 public:
  /// `file`: of a size that is not 0; the same on all ranks.
  explicit SharedBlocks(Descriptor file) : file_(std::move(file)) {}
  SharedBlocks(const SharedBlocks&) = delete;
  SharedBlocks& operator=(const SharedBlocks&) = delete;
  /// Unmaps the blocks of other ranks.
  ~SharedBlocks();

  /// A tensor of `count` elements, with undefined content, in a block of its own, which it may keep
  /// beyond this object. `end`: where the last block of any rank ends, in bytes; in memory that all
  /// ranks share, at first first_end(). Undefined if there is no room.
  /// Thread-safe.
  at::Tensor allocate(std::int64_t count, at::ScalarType type, std::atomic<std::uint64_t>& end);

  [[nodiscard]] int file() const { return file_.fd(); }

  /// For a new file of so many bytes. 0: there are to be no blocks, as this kernel does not take
  /// memory back.
  static std::uint64_t first_end(int file, std::uint64_t bytes);

  /// Where in the file these bytes of this process lie. No value: in none of its blocks.
  /// Thread-safe.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(const void* data, std::size_t bytes) const;

  /// `bytes` of other ranks' blocks, each from one of these offsets on. Empty if they cannot be
  /// mapped. Valid until the next call. One thread at a time.
  std::vector<char*> view(const std::vector<std::uint64_t>& offsets, std::size_t bytes);

 private:
  static constexpr std::size_t kMostViewed = 2;  // times the blocks that peers probably have
  struct Block {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };
  struct View {
    char* address = nullptr;  // of the page with the first byte
    std::size_t bytes = 0;
  };
  void free(char* address, Block block);
  char* view_of(std::uint64_t offset, std::size_t bytes);
  void unmap_views();
  [[nodiscard]] std::size_t own_bytes() const;

  const Descriptor file_;
  const pid_t owner_ = ::getpid();  // a fork of it has the tensors, too, but must not free them
  mutable std::mutex mutex_;        // guards the next two
  std::map<const char*, Block> blocks_;  // of this process, by address
  std::size_t own_bytes_ = 0;            // of blocks_
  // Used by one thread.
  std::map<std::uint64_t, View> views_;  // of other ranks' blocks, by offset
  std::size_t viewed_bytes_ = 0;         // of views_
};

}  // namespace ddp::worker
