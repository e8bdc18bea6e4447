// The memory in which the ranks of a node make their sums (shared_sums.h). It has no name: rank 0
// makes it (memfd_create(2)), the others open it by rank 0's descriptor in /proc, and it ends with
// the last of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/files/descriptor.h"
#include "worker/dist/shared_blocks.h"

namespace ddp::worker {

/// A number that ranks wait for.
using SharedNumber = std::atomic<std::uint32_t>;
static_assert(SharedNumber::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Sleeps until futex_wake(), unless the number is not `seen` any more, or for `limit`. See
/// futex(2).
void futex_wait(SharedNumber& number, std::uint32_t seen, std::chrono::milliseconds limit);
void futex_wake(SharedNumber& number);

/// Layout of the file: Header, the states of the ranks, kSlots rows with one chunk per rank, and
/// then the blocks of SharedBlocks.
class SumsMemory {
 public:
  static constexpr std::uint32_t kSlots = 3;
  // Data of different ranks are so far apart, to avoid false sharing.
  static constexpr std::size_t kCacheLinePair = 128;
  static constexpr std::size_t kMaxChunkBytes = 512 << 10;
  static constexpr std::size_t kMaxRowBytes = 16 << 20;  // of the chunks of all ranks

  /// Must be equal on all ranks.
  struct CallKind {
    static constexpr int kSum = -1;
    static constexpr int kGather = -2;

    std::uint64_t bytes = 0;
    at::ScalarType type = at::kFloat;
    int operation = kSum;  // kSum, kGather, or the rank that broadcasts

    bool operator==(const CallKind&) const = default;
  };

  /// A rank's state, which the others read. The kind of a call is stored by slot, because a rank
  /// may have begun its next chunk while another one still compares this one.
  struct alignas(kCacheLinePair) RankState {
    SharedNumber barriers{0};  // that the rank has reached
    SharedNumber waiters{0};   // ranks that sleep until it reaches the next one
    CallKind kinds[kSlots];
    std::uint64_t places[kSlots]{};  // of the call's tensor in the file; 0: elsewhere
    // A robust mutex that the rank's thread holds as long as it runs. The kernel releases it when
    // the process dies, earlier than the parent learns of it: freeing the process's memory comes in
    // between.
    pthread_mutex_t alive_lock{};

    [[nodiscard]] bool has_ended();
  };

  struct alignas(kCacheLinePair) Header {
    std::uint64_t nonce = 0;
    SharedNumber end{0};  // why all calls fail; the first one stays
    std::atomic<std::uint64_t> blocks_end{0};
  };

  using Gather = std::function<std::vector<std::string>(const std::string& own)>;
  struct Opened {
    std::unique_ptr<SumsMemory> memory;  // null: this rank could not map it
    std::string problem;                 // why `memory` is null
  };
  /// All ranks of a node call it: see SharedSums::connect. Errors: those of `gather`.
  static Opened open(int rank, const std::vector<int>& names, const Gather& gather);
  SumsMemory(const SumsMemory&) = delete;
  SumsMemory& operator=(const SumsMemory&) = delete;
  ~SumsMemory();

  [[nodiscard]] static std::size_t chunk_bytes(int world_size);

  [[nodiscard]] Header& header() const { return *static_cast<Header*>(memory_); }
  [[nodiscard]] RankState& rank_state(int rank) const;
  [[nodiscard]] char* chunk(std::uint32_t slot, int rank) const;

  /// See SharedBlocks::allocate.
  [[nodiscard]] at::Tensor allocate(std::int64_t count, at::ScalarType type) const;
  [[nodiscard]] SharedBlocks& blocks() const { return *blocks_; }

 private:
  SumsMemory(void* memory, int world_size, Descriptor file)
      : memory_(memory),
        world_size_(world_size),
        blocks_(std::make_shared<SharedBlocks>(std::move(file))) {}
  static std::unique_ptr<SumsMemory> map(Descriptor file, int world_size, bool is_new);
  static std::size_t head_bytes(int world_size);
  static std::size_t bytes_for(int world_size);

  void* const memory_;
  const int world_size_;
  const std::shared_ptr<SharedBlocks> blocks_;  // tensors may outlive this object
};

}  // namespace ddp::worker
