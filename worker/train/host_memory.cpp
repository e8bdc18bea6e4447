#include "worker/train/host_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "worker/train/block_cache.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kLeastCached = 1 << 20;
/// The largest that glibc takes: half of a heap of 64 MiB (malloc/arena.c, HEAP_MAX_SIZE).
constexpr int kMostOnHeap = 32 << 20;
constexpr std::array kVariables{
    "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_"};

bool has_user_chosen() {
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  if (tunables != nullptr &&
      std::string_view(tunables).find("glibc.malloc.") != std::string_view::npos) {
    return true;
  }
  return std::any_of(kVariables.begin(), kVariables.end(), [](const char* name) {
    return std::getenv(name) != nullptr;
  });
}

/// Never destroyed: tensors of static objects outlive every other static object.
BlockCache& block_cache() {
  static BlockCache& cache = *new BlockCache;
  return cache;
}

void give_back(void* address) {
  if (!block_cache().give_back(address)) c10::GetDefaultCPUAllocator()->raw_deallocate(address);
}

class HostAllocator final : public c10::Allocator {
 public:
  /// Without memory for a large block, LibTorch's own allocator words the error.
  c10::DataPtr allocate(std::size_t bytes) override {
    void* block = bytes < kLeastCached ? nullptr : block_cache().take(bytes);
    if (block == nullptr) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    return {block, block, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void reuse_host_memory() {
  if (has_user_chosen()) return;
  static HostAllocator& allocator = *new HostAllocator;
  c10::SetCPUAllocator(&allocator);
  ::mallopt(M_MMAP_THRESHOLD, kMostOnHeap);
  ::mallopt(M_TRIM_THRESHOLD, -1);  // never
}

}  // namespace ddp::worker
