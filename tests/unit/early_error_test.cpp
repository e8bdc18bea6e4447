#include "worker/dist/early_error.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>

#include "common/error.h"
#include "early_error_ranks.h"
#include "worker/dist/error_server.h"
#include "worker/dist/store.h"

namespace ddp::worker {
namespace {

/// Which of three ranks have said their own.
std::array<bool, 3> said_by(const std::array<std::string, 3>& problems) {
  const int port = free_port();
  std::array<std::future<bool>, 3> ranks;
  std::array<std::atomic<int>, 3> calls{};
  for (std::size_t i = 0; i < 3; ++i) {
    ranks[i] = std::async(std::launch::async, [&, i] {
      return print_once(
          rank_of_three(static_cast<int>(i), port), problems[i], [&calls, i] { ++calls[i]; });
    });
  }
  std::array<bool, 3> said{};
  for (std::size_t i = 0; i < 3; ++i) {
    said[i] = ranks[i].get();
    EXPECT_EQ(calls[i], said[i] ? 1 : 0);
  }
  return said;
}

TEST(EarlyError, CommonErrorIsPrintedByRank0Only) {
  EXPECT_EQ(said_by({"a", "a", "a"}), (std::array{true, false, false}));
  const std::string long_one(3 * kLongestError, 'x');
  EXPECT_EQ(said_by({long_one, long_one, long_one}), (std::array{true, false, false}));
}

TEST(EarlyError, RankWithAnotherErrorPrintsItToo) {
  EXPECT_EQ(said_by({"a", "b", "a"}), (std::array{true, true, false}));
}

TEST(EarlyError, SingleProcessPrintsItsError) {
  WorkerIdentity alone;
  int calls = 0;
  EXPECT_TRUE(print_once(alone, "a", [&calls] { ++calls; }));
  EXPECT_EQ(calls, 1);
}

TEST(EarlyError, RankWithoutErrorExitsAfterAnotherRankReportsOne) {
  const int port = free_port();
  const auto rank_0 =
      std::async(std::launch::async, [port] { serve_error(rank_of_three(0, port), "why", kLong); });
  std::atomic<bool> has_spoken{false};
  const auto joining = std::async(std::launch::async, [&has_spoken, port] {
    try {
      (void)open_store(rank_of_three(1, port), kLong);
    } catch (const PeerError& error) {
      EXPECT_EQ(error.code(), exit_code::kLostPeer);
      EXPECT_STREQ(error.what(), "rank 0 did not join: why");
      EXPECT_TRUE(has_spoken);
    }
  });
  EXPECT_EQ(joining.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  EXPECT_TRUE(print_once(rank_of_three(2, port), "else", [&has_spoken] { has_spoken = true; }));
}

TEST(EarlyError, ANewStartOfRankZeroTakesThePortAndWhoWouldJoinJoins) {
  const int port = free_port();
  const auto rank_0 =
      std::async(std::launch::async, [port] { serve_error(rank_of_three(0, port), "why", kLong); });
  const auto join = [port](int rank) { return open_store(rank_of_three(rank, port), kLong).store; };
  auto joining = std::async(std::launch::async, join, 1);
  EXPECT_EQ(joining.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  const auto served = join(0);
  served->set("key", "value");
  EXPECT_EQ(joining.get()->get_to_str("key"), "value");
}

}  // namespace
}  // namespace ddp::worker
