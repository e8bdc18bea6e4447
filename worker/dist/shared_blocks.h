// Memory for tensors that the other ranks of a node can map: blocks of one file without a name.
// Trap: a block that was given back may still be mapped by a peer. So no part of the file is used
// twice; what was given back holds no memory (fallocate(2), FALLOC_FL_PUNCH_HOLE).
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
  /// ranks share, at first in_pages() of the file's size. Undefined if there is no room.
  /// Thread-safe.
  at::Tensor allocate(std::int64_t count, at::ScalarType type, std::atomic<std::uint64_t>& end);

  /// `bytes`, rounded up.
  static std::uint64_t in_pages(std::uint64_t bytes);

  /// Where in the file these bytes of this process lie. No value: in none of its blocks.
  /// Thread-safe.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(const void* data, std::size_t bytes) const;

  /// These bytes of another rank's block. Null if they cannot be mapped. Valid until
  /// forget_old_views(). One thread at a time.
  char* view(std::uint64_t offset, std::size_t bytes);
  /// Limits how many blocks stay mapped.
  void forget_old_views();

 private:
  struct Block {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };
  struct View {
    char* address = nullptr;  // of the page with the first byte
    std::size_t bytes = 0;
  };
  void free(char* address);
  void unmap_views();

  const Descriptor file_;
  const pid_t owner_ = ::getpid();  // a fork of it has the tensors, too, but must not free them
  mutable std::mutex mutex_;        // guards what follows
  std::map<const char*, Block> blocks_;  // of this process, by address
  std::map<std::uint64_t, View> views_;  // of other ranks' blocks, by offset; used by one thread
};

}  // namespace ddp::worker
