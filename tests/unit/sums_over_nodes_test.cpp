// Sums of ranks on several nodes: through shared memory inside of a node, by Gloo between nodes.
// Ranks are threads, and say on which node they are.
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "worker/dist/watched_gloo.h"

namespace ddp::worker {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::Not;

using RankWork = std::function<void(WatchedGloo& gloo, int rank)>;

/// What the work of each rank has thrown; empty: nothing. `nodes`: of each rank.
std::vector<std::string> run_on_nodes(const std::vector<std::string>& nodes, const RankWork& work) {
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // as tests/unit/ranks.h
  ::signal(SIGPIPE, SIG_IGN);
  std::vector<std::string> errors(nodes.size());
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::jthread> ranks;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        const auto options = c10d::ProcessGroupGloo::Options::create(10s);
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
        const auto gloo = c10::make_intrusive<WatchedGloo>(
            store, static_cast<int>(rank), static_cast<int>(nodes.size()), options);
        const std::string why_not = gloo->share_memory(nodes[rank]);
        if (!why_not.empty()) throw std::logic_error(why_not);
        work(*gloo, static_cast<int>(rank));
        gloo->stop_watching();
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  ranks.clear();
  return errors;
}

c10::intrusive_ptr<c10d::Work> start_sum(WatchedGloo& gloo, const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  return gloo.allreduce(tensors, c10d::AllreduceOptions());
}

// Nodes of two ranks, of one and of three, whose ranks do not follow each other.
const std::vector<std::string> kNodes{"a", "c", "a", "b", "c", "c"};

TEST(SumsOverNodes, AreTheSameBitsOnEveryRank) {
  // Nothing, one element, a small sum, a part of a chunk, and several chunks.
  const std::vector<std::int64_t> sizes{0, 1, 1000, 65536, 400003};
  std::vector<std::vector<at::Tensor>> sums(kNodes.size());
  std::vector<at::Tensor> wanted;
  for (const std::int64_t size : sizes) {
    wanted.push_back(at::zeros({size}, at::kDouble));
    for (std::vector<at::Tensor>& own : sums) {
      own.push_back(at::rand({size}, at::kDouble));
      wanted.back() += own.back();
    }
  }
  const auto errors = run_on_nodes(kNodes, [&](WatchedGloo& gloo, int rank) {
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (const at::Tensor& tensor : sums[static_cast<std::size_t>(rank)])
      works.push_back(start_sum(gloo, tensor));
    for (const auto& work : works)
      work->wait();
  });
  EXPECT_THAT(errors, Each(""));
  for (const std::vector<at::Tensor>& own : sums) {
    ASSERT_EQ(own.size(), sizes.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      EXPECT_TRUE(at::equal(own[i], sums[0][i])) << sizes[i];
      EXPECT_TRUE(at::allclose(own[i], wanted[i], 1e-14)) << sizes[i];
    }
  }
}

TEST(SumsOverNodes, AreThoseOfEachType) {
  const std::vector<at::ScalarType> types{
      at::kFloat, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte};
  const auto errors = run_on_nodes(kNodes, [&](WatchedGloo& gloo, int rank) {
    for (const at::ScalarType type : types) {
      for (const std::int64_t size : {100, 100003}) {
        const at::Tensor sum = at::full({size}, rank + 1, type);
        start_sum(gloo, sum)->wait();
        EXPECT_TRUE(at::equal(sum, at::full({size}, 21, type))) << c10::toString(type) << size;
      }
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(SumsOverNodes, BroadcastsAndGathersAmongThemGoToAllRanks) {
  const auto errors = run_on_nodes(kNodes, [](WatchedGloo& gloo, int rank) {
    for (int i = 0; i < 20; ++i) {
      const at::Tensor sum = at::full({100}, rank + i, at::kLong);
      start_sum(gloo, sum)->wait();
      EXPECT_TRUE(at::equal(sum, at::full({100}, 15 + 6 * i, at::kLong)));
      std::vector<at::Tensor> from_4{at::full({3}, rank)};
      c10d::BroadcastOptions options;
      options.rootRank = 4;
      gloo.broadcast(from_4, options)->wait();
      EXPECT_TRUE(at::equal(from_4[0], at::full({3}, 4)));
      std::vector<std::vector<at::Tensor>> all(1, std::vector<at::Tensor>(kNodes.size()));
      for (at::Tensor& one : all[0])
        one = at::zeros({1});
      std::vector<at::Tensor> own{at::full({1}, static_cast<float>(rank))};
      gloo.allgather(all, own, c10d::AllgatherOptions())->wait();
      for (std::size_t k = 0; k < kNodes.size(); ++k)
        EXPECT_EQ(all[0][k].item<float>(), static_cast<float>(k));
    }
  });
  EXPECT_THAT(errors, Each(""));
}

// What a rank that is killed does to the others: tests/integration/shm_test.py.
TEST(SumsOverNodes, ARankThatEndsFailsTheSumOnEveryNode) {
  const auto errors = run_on_nodes(kNodes, [](WatchedGloo& gloo, int rank) {
    start_sum(gloo, at::ones({70000}))->wait();
    if (rank == 4) throw std::runtime_error("ends");  // not the first rank of its node
    start_sum(gloo, at::ones({70000}))->wait();
  });
  EXPECT_THAT(errors, Each(Not("")));
  EXPECT_THAT(errors[5], testing::HasSubstr("rank 4 has ended"));
}

TEST(SumsOverNodes, RanksOfWhichEachIsAloneHaveNothingToShare) {
  EXPECT_THAT(run_on_nodes({"a", "b"}, [](WatchedGloo&, int) {}),
              Each(testing::StartsWith("no two ranks can share memory: each is on a node of")));
}

}  // namespace
}  // namespace ddp::worker
