#include "worker/dist/host_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace ddp::worker {
namespace {

constexpr std::int64_t kFloatsOf4MiB = 1 << 20;

/// In this order: nothing brings LibTorch's own allocator back.
TEST(HostMemory, TheUsersChoiceStands) {
  const c10::Allocator* own = c10::GetCPUAllocator();
  reuse_host_memory({{"MALLOC_TRIM_THRESHOLD_", "131072"}});
  EXPECT_EQ(c10::GetCPUAllocator(), own);
  reuse_host_memory({{"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}});
  EXPECT_EQ(c10::GetCPUAllocator(), own);
}

TEST(HostMemory, ATensorTakesTheMemoryOfOneThatIsGone) {
  at::Tensor early = at::full({kFloatsOf4MiB}, 1.0);
  reuse_host_memory({});
  at::Tensor first = at::full({kFloatsOf4MiB}, 2.0);
  const void* address = first.data_ptr();
  EXPECT_EQ(early.sum().item<double>(), kFloatsOf4MiB);
  early.reset();  // by the allocator that has made it
  const at::Tensor copy = std::exchange(first, {}).clone();
  const at::Tensor next = at::empty({kFloatsOf4MiB});
  EXPECT_EQ(next.data_ptr(), address);
  EXPECT_NE(copy.data_ptr(), address);
  EXPECT_EQ(copy.sum().item<double>(), 2.0 * kFloatsOf4MiB);
}

TEST(HostMemory, GivesAndTakesByAddressAlone) {
  reuse_host_memory({});
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{3} << 20}) {
    void* block = allocator.raw_allocate(bytes);
    std::memset(block, 1, bytes);
    allocator.raw_deallocate(block);
  }
}

TEST(HostMemory, LibTorchSaysThatThereIsNotEnough) {
  reuse_host_memory({});
  try {
    (void)at::empty({std::int64_t{1} << 58});
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("can't allocate memory"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace ddp::worker
