#include "worker/dist/block_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace ddp::worker {
namespace {

constexpr std::size_t kMiB = 1 << 20;

TEST(BlockCache, GivesABlockAgainThatWasGivenBack) {
  BlockCache cache;
  void* first = cache.take(3 * kMiB);
  std::memset(first, 1, 3 * kMiB);
  ASSERT_TRUE(cache.give_back(first));
  EXPECT_EQ(cache.take(3 * kMiB), first);
  EXPECT_NE(cache.take(3 * kMiB), first) << "it is in use";
}

TEST(BlockCache, TakesTheSmallestBlockThatFitsAndNoneThatIsMuchTooLarge) {
  BlockCache cache;
  void* large = cache.take(1100 * 4096);
  void* close = cache.take(1050 * 4096);
  void* distant = cache.take(2000 * 4096);
  for (void* block : {large, close, distant})
    cache.give_back(block);
  EXPECT_EQ(cache.take(1000 * 4096), close);
  EXPECT_EQ(cache.take(1000 * 4096), large);
  const std::set<void*> others{large, close, distant};
  EXPECT_EQ(others.count(cache.take(1000 * 4096)), 0U) << "twice as large";
}

TEST(BlockCache, MapsWholePages) {
  BlockCache cache;
  void* block = cache.take(kMiB + 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 4096, 0U);
  EXPECT_EQ(cache.sizes().used, kMiB + 4096);
  EXPECT_EQ(cache.sizes().idle, 0U);
}

TEST(BlockCache, UnmapsTheLongestIdleBlocksBeforeItHoldsMoreThanAQuarterAboveThePeak) {
  BlockCache cache;
  void* oldest = cache.take(4 * kMiB);
  void* newest = cache.take(4 * kMiB);
  cache.give_back(oldest);
  cache.give_back(newest);
  // 8 idle and 2 used are 1.25 times the peak of 8.
  void* third = cache.take(2 * kMiB);
  EXPECT_EQ(cache.sizes().idle, 8 * kMiB);
  cache.take(1 * kMiB);
  EXPECT_EQ(cache.sizes().idle, 4 * kMiB);
  EXPECT_EQ(cache.take(4 * kMiB), newest);
  EXPECT_TRUE(cache.give_back(third));
}

TEST(BlockCache, HoldsAtMostAQuarterMoreThanThePeakWhateverTheSizes) {
  BlockCache cache;
  std::mt19937 random(7);
  std::vector<void*> used;
  for (int i = 0; i < 3000; ++i) {
    if (used.empty() || random() % 2 == 0) {
      used.push_back(cache.take(kMiB + random() % (8 * kMiB)));
      ASSERT_NE(used.back(), nullptr);
    } else {
      std::swap(used[random() % used.size()], used.back());
      ASSERT_TRUE(cache.give_back(used.back()));
      used.pop_back();
    }
    const BlockSizes sizes = cache.sizes();
    ASSERT_LE(sizes.used + sizes.idle, sizes.peak_used + sizes.peak_used / 4);
  }
  for (void* block : used)
    cache.give_back(block);
  EXPECT_EQ(cache.sizes().used, 0U);
}

TEST(BlockCache, KnowsItsOwnBlocksAlone) {
  BlockCache cache;
  int other = 0;
  EXPECT_FALSE(cache.give_back(&other));
  void* block = cache.take(kMiB);
  EXPECT_TRUE(cache.give_back(block));
  EXPECT_FALSE(cache.give_back(block)) << "a second time";
}

TEST(BlockCache, IsNullWithoutMemoryAndHasTriedItWithoutTheIdleBlocks) {
  BlockCache cache;
  cache.give_back(cache.take(4 * kMiB));
  EXPECT_EQ(cache.take(std::size_t{1} << 60), nullptr);
  EXPECT_EQ(cache.sizes().idle, 0U);
  EXPECT_EQ(cache.sizes().used, 0U);
  EXPECT_NE(cache.take(4 * kMiB), nullptr);
  EXPECT_EQ(cache.take(std::numeric_limits<std::size_t>::max()), nullptr) << "would overflow";
}

TEST(BlockCache, ServesSeveralThreads) {
  BlockCache cache;
  const auto work = [&cache](unsigned char mark) {
    for (int i = 0; i < 300; ++i) {
      auto* block = static_cast<unsigned char*>(cache.take(kMiB));
      block[0] = block[kMiB - 1] = mark;
      std::this_thread::yield();
      EXPECT_EQ(block[0], mark);
      EXPECT_EQ(block[kMiB - 1], mark);
      EXPECT_TRUE(cache.give_back(block));
    }
  };
  std::thread other(work, 1);
  work(2);
  other.join();
  EXPECT_EQ(cache.sizes().used, 0U);
}

}  // namespace
}  // namespace ddp::worker
