// What a rank's page says while it waits for others: inside a collective, and outside of it while
// it computes. A rank that never said so would let these tests run into their deadline.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "common/progress/progress_page.h"
#include "ranks.h"
#include "tests/support/fake_cuda_module.h"
#include "worker/dist/ddp.h"

namespace ddp::worker {
namespace {

using namespace std::chrono_literals;

bool sees_it_inside(const ProgressPage& page) {
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (page.collectives.load() == 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Rank 1 does its part only when rank 0's page says that it waits. Returns whether it came to
/// that; on rank 0, whether its page says afterwards that it waits no longer.
template <typename Work>
std::vector<int> wait_for_rank_1(const Work& work, const Device& device = {}) {
  std::array<ProgressPage, 2> pages;
  const auto on_rank = [&](Group& group) {
    group.show_on(pages.at(static_cast<std::size_t>(group.rank())));
    return work(group, pages[0]) ? 1 : 0;
  };
  return on_ranks(2, on_rank, device);
}

TEST(InCollective, ARankThatWaitsForASumSaysSo) {
  const auto held = wait_for_rank_1([](Group& group, const ProgressPage& first) {
    const bool seen = group.is_root() || sees_it_inside(first);
    at::Tensor one = at::ones({1});
    group.all_reduce(one);
    return seen && (!group.is_root() || first.collectives.load() == 0);
  });
  EXPECT_EQ(held, (std::vector{1, 1}));
}

TEST(InCollective, ARankIsOutsideWhileBackwardComputesAndInsideWhileItReduces) {
  const auto held = wait_for_rank_1([](Group& group, const ProgressPage& first) {
    DdpRequest request;
    request.parameters.push_back({"w", at::ones({4}).requires_grad_(true)});
    const at::Tensor weights = request.parameters[0].tensor;
    Ddp replica(request, group);
    bool is_outside = false;  // while backward computes
    weights.register_hook(
        [&](const at::Tensor&) { is_outside = group.page()->collectives.load() == 0; });
    replica.prepare_to_reduce();
    const bool seen = group.is_root() || sees_it_inside(first);
    replica.backward(weights.square().sum(), /*reduce=*/true);
    return seen && is_outside && (!group.is_root() || first.collectives.load() == 0);
  });
  EXPECT_EQ(held, (std::vector{1, 1}));
}

TEST(InCollective, ARankThatWaitsForADeviceThatComputesWithOthersSaysSo) {
  std::atomic<bool> is_done = false;
  const auto held = wait_for_rank_1(
      [&](Group& group, const ProgressPage& first) {
        if (group.is_root()) {
          group.await_device("a step", [&] { return is_done.load(); });
          return first.collectives.load() == 0;
        }
        const bool seen = sees_it_inside(first);
        is_done = true;
        return seen;
      },
      device_with_fake_nccl());
  EXPECT_EQ(held, (std::vector{1, 1}));
}

// Gloo needs no device: one that hangs there is the rank's own fault.
TEST(InCollective, ARankThatWaitsForADeviceOfItsOwnDoesNot) {
  const auto held = wait_for_rank_1([](Group& group, const ProgressPage& first) {
    bool is_outside = true;
    int asked = 0;
    group.await_device("a step", [&] {
      is_outside = is_outside && (!group.is_root() || first.collectives.load() == 0);
      return ++asked == 100;
    });
    return is_outside;
  });
  EXPECT_EQ(held, (std::vector{1, 1}));
}

}  // namespace
}  // namespace ddp::worker
