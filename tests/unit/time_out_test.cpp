// Collective time-outs: the error names the missing ranks, and 97 (lost) and 124 (timed out) are
// told apart by the time waited.
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <latch>
#include <mutex>
#include <string>

#include "common/error.h"
#include "common/exit_code.h"
#include "ranks.h"

namespace ddp::worker {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;
using testing::HasSubstr;

struct End {
  int code = 0;
  std::string text;
};

/// How `work(group, rank)` ends on each rank, by rank. Collectives wait for four seconds, above
/// what a busy machine makes of a step.
template <typename Work>
std::vector<End> ends_of(SharedMemory shared_memory, int world_size, const Work& work) {
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // see ranks.h
  ::signal(SIGPIPE, SIG_IGN);                // as common/cli/streams does
  std::vector<End> ends(static_cast<std::size_t>(world_size));
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      GlooOptions options;
      options.store = store;
      options.rank = rank;
      options.world_size = world_size;
      options.local_address = "127.0.0.1";
      options.join_timeout = 60s;
      options.collective_timeout = 4s;
      options.device.shared_memory = shared_memory;
      const std::unique_ptr<Group> group = make_gloo_group(options);
      try {
        work(*group, rank);
      } catch (const Error& error) {
        ends[static_cast<std::size_t>(rank)] = {error.code(), error.what()};
      }
    });
  }
  threads.clear();
  return ends;
}

void sum(Group& group) {
  at::Tensor one = at::ones({1000});
  group.all_reduce(one);
}

class TimeOut : public testing::TestWithParam<SharedMemory> {};
INSTANTIATE_TEST_SUITE_P(Ways,
                         TimeOut,
                         testing::Values(SharedMemory::never, SharedMemory::required));

TEST_P(TimeOut, BothOtherRanksNameTheMissingRank) {
  std::latch others(2);
  const std::vector<End> ends = ends_of(GetParam(), 3, [&](Group& group, int rank) {
    sum(group);  // all are here
    if (rank == 2) return others.wait();
    try {
      sum(group);
    } catch (const Error&) {
      others.count_down();
      throw;
    }
  });
  for (const int rank : {0, 1}) {
    const End& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.code, exit_code::kTimeout);
    EXPECT_THAT(end.text, HasSubstr("after 4s (ddp.timeout): rank 2 of 3 did not come."));
  }
}

TEST_P(TimeOut, ASumThatWasStartedBeforeCountsFromItsStart) {
  std::latch other(1);
  const std::vector<End> ends = ends_of(GetParam(), 2, [&](Group& group, int rank) {
    if (rank == 1) return other.wait();
    const std::unique_ptr<PendingSum> vote = group.start_all_reduce(at::ones({1}));
    try {
      // Comes to its wait when half of the time is over: it fails with the vote's connections.
      const auto half = std::chrono::steady_clock::now() + 2s;
      while (std::chrono::steady_clock::now() < half)
        std::this_thread::yield();
      sum(group);
    } catch (const Error&) {
      other.count_down();
      throw;
    }
  });
  EXPECT_EQ(ends[0].code, exit_code::kTimeout);
  EXPECT_THAT(ends[0].text, HasSubstr("rank 1 of 2 did not come."));
}

TEST_P(TimeOut, APeerThatLeavesIsALostPeerAndNoTimeOut) {
  const std::vector<End> ends = ends_of(GetParam(), 2, [&](Group& group, int rank) {
    sum(group);
    if (rank == 1) throw UsageError("its own");  // its group lets go, as in a program that ends
    sum(group);
  });
  EXPECT_EQ(ends[1].text, "its own");
  EXPECT_EQ(ends[0].code, exit_code::kLostPeer);
  EXPECT_THAT(ends[0].text, ContainsRegex("^lost a peer during a sum over ranks: "));
}

}  // namespace
}  // namespace ddp::worker
