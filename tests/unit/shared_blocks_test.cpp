#include "worker/dist/shared_blocks.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

namespace ddp::worker {
namespace {

constexpr std::int64_t kCount = 100000;
constexpr std::size_t kBytes = kCount * sizeof(float);

struct File {
  File() { [[maybe_unused]] const int result = ::ftruncate(fd.fd(), 4096); }

  /// As another process has it.
  [[nodiscard]] std::shared_ptr<SharedBlocks> open() const {
    return std::make_shared<SharedBlocks>(Descriptor(::dup(fd.fd())));
  }
  [[nodiscard]] std::int64_t used_bytes() const {
    struct stat status {};
    ::fstat(fd.fd(), &status);
    return status.st_blocks * 512;
  }

  Descriptor fd{::memfd_create("test", MFD_CLOEXEC)};
  std::atomic<std::uint64_t> end{SharedBlocks::first_end(fd.fd(), 4096)};
};

TEST(SharedBlocks, AnotherRankSeesWhatATensorHolds) {
  File file;
  const auto own = file.open();
  const auto other = file.open();
  const at::Tensor first = own->allocate(kCount, at::kFloat, file.end);
  const at::Tensor second = other->allocate(kCount, at::kFloat, file.end);
  const at::Tensor part = first.narrow(0, 1234, 100);
  const auto place = own->offset_of(part.const_data_ptr(), part.nbytes());
  ASSERT_TRUE(place);
  auto* const view = reinterpret_cast<float*>(other->view({*place}, part.nbytes()).at(0));
  part.fill_(7);
  EXPECT_TRUE(std::all_of(view, view + 100, [](float number) { return number == 7; }));
  view[99] = 8;
  EXPECT_EQ(part[99].item<float>(), 8);
  // A larger part of the same page.
  auto* const longer = reinterpret_cast<float*>(other->view({*place}, 50000 * sizeof(float)).at(0));
  EXPECT_EQ(longer[99], 8);
  EXPECT_FALSE(other->offset_of(part.const_data_ptr(), part.nbytes())) << "it is not its own";
  EXPECT_FALSE(own->offset_of(second.const_data_ptr(), 4));
  EXPECT_FALSE(own->offset_of(first.const_data_ptr(), kBytes + 4096)) << "it ends earlier";
}

TEST(SharedBlocks, ATensorMayOutliveThemAndThenGivesItsMemoryBack) {
  File file;
  const std::int64_t before = file.used_bytes();
  at::Tensor tensor = file.open()->allocate(kCount, at::kFloat, file.end);
  tensor.fill_(1);
  EXPECT_EQ(tensor.sum().item<float>(), kCount);
  EXPECT_GE(file.used_bytes() - before, static_cast<std::int64_t>(kBytes));
  tensor = at::Tensor();
  EXPECT_EQ(file.used_bytes(), before);
}

TEST(SharedBlocks, WhatWasGivenBackIsNotUsedAgain) {
  File file;
  const auto own = file.open();
  const auto other = file.open();
  at::Tensor tensor = own->allocate(kCount, at::kFloat, file.end);
  char* const stale = other->view({*own->offset_of(tensor.const_data_ptr(), kBytes)}, kBytes).at(0);
  tensor = at::Tensor();
  const at::Tensor next = own->allocate(kCount, at::kFloat, file.end);
  next.fill_(5);
  *stale = 1;  // by a rank that was stopped in the middle of a sum
  EXPECT_TRUE(next.eq(5).all().item<bool>());
}

TEST(SharedBlocks, AForkThatDropsATensorLeavesItToItsOwner) {
  File file;
  at::Tensor tensor = file.open()->allocate(kCount, at::kFloat, file.end);
  tensor.fill_(3);
  const pid_t pid = ::fork();
  if (pid == 0) {
    tensor = at::Tensor();
    ::execl("/bin/true", "true", nullptr);
  }
  ::waitpid(pid, nullptr, 0);
  EXPECT_TRUE(tensor.eq(3).all().item<bool>());
}

TEST(SharedBlocks, AreNotBeyondTheLargestFileOfTheUser) {
  File file;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{kBytes / 2, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const at::Tensor tensor = file.open()->allocate(kCount, at::kFloat, file.end);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(tensor.defined());
}

TEST(SharedBlocks, AreNotWhereTheKernelHasNoRoom) {
  File file;
  const auto blocks = file.open();
  const std::uint64_t before = file.end;
  for (const std::int64_t count :
       {std::int64_t{1} << 50, (std::int64_t{1} << 62) + 1, std::int64_t{0}, std::int64_t{-1024}})
    EXPECT_FALSE(blocks->allocate(count, at::kFloat, file.end).defined()) << count;
  EXPECT_EQ(file.end, before);
  file.end = 0;  // no memory can be given back
  EXPECT_FALSE(blocks->allocate(kCount, at::kFloat, file.end).defined());
}

TEST(SharedBlocks, OldViewsMakeRoomForNewOnes) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);)
      count += line.find("/memfd:test") != std::string::npos ? 1 : 0;
    return count;
  };
  File file;
  const auto own = file.open();
  const auto other = file.open();
  const at::Tensor kept = own->allocate(kCount, at::kFloat, file.end);
  for (int i = 0; i < 50; ++i) {
    const at::Tensor passing = other->allocate(kCount, at::kFloat, file.end);
    passing.fill_(i);
    const auto place = other->offset_of(passing.const_data_ptr(), kBytes);
    EXPECT_EQ(*reinterpret_cast<float*>(own->view({*place}, kBytes).at(0)), i);
  }
  EXPECT_LT(mappings(), 6);
  // No room at all.
  EXPECT_TRUE(own->view({file.end}, std::size_t{1} << 60).empty());
}

}  // namespace
}  // namespace ddp::worker
