#include "worker/dist/host_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <string>

#include "common/sanitizer.h"
#include "worker/dist/block_cache.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kLeastCached = 1 << 20;
/// The largest that glibc takes: half of a heap of 64 MiB (malloc/arena.c, HEAP_MAX_SIZE).
constexpr int kMostOnHeap = 32 << 20;
/// What is free at the end of the heap and not given back. A step leaves little there: its large
/// tensors are in the BlockCache.
constexpr int kMostFreeOnHeap = 256 << 20;

bool has_user_chosen(const Environment& environment) {
  for (const char* name : {"MALLOC_TRIM_THRESHOLD_",
                           "MALLOC_MMAP_THRESHOLD_",
                           "MALLOC_MMAP_MAX_",
                           "MALLOC_TOP_PAD_"}) {
    if (find_variable(environment, name)) return true;
  }
  const std::string tunables = find_variable(environment, "GLIBC_TUNABLES").value_or("");
  return tunables.find("glibc.malloc.") != std::string::npos ||
         c10::GetCPUAllocator() != c10::GetDefaultCPUAllocator();
}

/// One for the process, because a deleter gets nothing but the address. Never destroyed: tensors of
/// static objects outlive every other static object.
BlockCache& block_cache() {
  static BlockCache& cache = *new BlockCache;
  return cache;
}

/// oneDNN gives back by address alone what allocate() has given it, so this also takes blocks of
/// LibTorch's own allocator.
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

void reuse_host_memory(const Environment& environment) {
  if (kHasSanitizer || has_user_chosen(environment)) return;
  static HostAllocator& allocator = *new HostAllocator;
  c10::SetCPUAllocator(&allocator);
  ::mallopt(M_MMAP_THRESHOLD, kMostOnHeap);
  ::mallopt(M_TRIM_THRESHOLD, kMostFreeOnHeap);
}

}  // namespace ddp::worker
