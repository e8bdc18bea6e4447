// Sums through shared memory: ranks as threads, each with a mapping of its own.
#include "worker/dist/shared_sums.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <latch>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace ddp::worker {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;

using Work = std::function<void(SharedSums& sums, int rank)>;

constexpr std::chrono::milliseconds kTimeout = 2s;

/// What each rank's work has thrown; empty: nothing.
std::vector<std::string> run_ranks(int world_size, const Work& work) {
  std::vector<std::string> errors(static_cast<std::size_t>(world_size));
  std::vector<std::string> texts(static_cast<std::size_t>(world_size));
  std::barrier meeting(world_size);
  std::vector<int> names(errors.size());
  std::iota(names.begin(), names.end(), 0);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto gather = [&](const std::string& own) {
        texts[static_cast<std::size_t>(rank)] = own;
        meeting.arrive_and_wait();
        std::vector<std::string> all = texts;
        meeting.arrive_and_wait();
        return all;
      };
      try {
        const auto connected = SharedSums::connect(rank, names, gather);
        if (!connected.sums) throw std::logic_error(connected.why_not);
        work(*connected.sums, rank);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  ranks.clear();
  return errors;
}

c10::intrusive_ptr<c10d::Work> start(SharedSums& sums, const at::Tensor& tensor) {
  return sums.start({tensor, kTimeout, {}, {}});
}

c10::intrusive_ptr<c10d::Work> run(SharedSums& sums, const at::Tensor& tensor) {
  return sums.run({tensor, kTimeout, {}, {}});
}

void sum(SharedSums& sums, const at::Tensor& tensor) {
  start(sums, tensor)->wait();
}

/// A rank's share of a sum of random numbers of very different sizes.
at::Tensor share_of(int rank, std::vector<std::int64_t> sizes, at::ScalarType type) {
  at::manual_seed(static_cast<std::uint64_t>(rank));
  const at::Tensor values = at::rand(sizes, at::kDouble) - 0.5;
  const double scale = rank == 1 ? 1e4 : 1;
  return (values * scale * (at::isIntegralType(type, false) ? 1000 : 1)).to(type);
}

/// ((x0 + x1) + x2) + ..., low types in float32.
at::Tensor in_order(int world_size, std::vector<std::int64_t> sizes, at::ScalarType type) {
  const bool is_low = type == at::kHalf || type == at::kBFloat16;
  at::Tensor all;
  for (int rank = 0; rank < world_size; ++rank) {
    const at::Tensor share = share_of(rank, sizes, type).to(is_low ? at::kFloat : type);
    all = rank == 0 ? share : all + share;
  }
  return all.to(type);
}

TEST(SharedSums, AreThoseInTheOrderOfRanksForEveryTypeAndSize) {
  constexpr at::ScalarType kTypes[] = {
      at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt};
  // One element, a part of a piece, an odd number, a whole piece, and several with a rest.
  constexpr std::int64_t kSizes[] = {1, 5, 4097, 65536, 400003};
  for (const int world_size : {2, 3, 5}) {
    std::vector<std::vector<at::Tensor>> shares(static_cast<std::size_t>(world_size));
    for (int rank = 0; rank < world_size; ++rank)
      for (const at::ScalarType type : kTypes)
        for (const std::int64_t size : kSizes)
          shares[static_cast<std::size_t>(rank)].push_back(share_of(rank, {size}, type));
    const auto errors = run_ranks(world_size, [&](SharedSums& sums, int rank) {
      for (const at::Tensor& share : shares[static_cast<std::size_t>(rank)])
        sum(sums, share);
    });
    EXPECT_THAT(errors, Each(""));
    std::size_t index = 0;
    for (const at::ScalarType type : kTypes) {
      for (const std::int64_t size : kSizes) {
        const at::Tensor wanted = in_order(world_size, {size}, type);
        for (const auto& of_rank : shares)
          EXPECT_TRUE(of_rank[index].equal(wanted)) << world_size << " " << type << " " << size;
        ++index;
      }
    }
  }
}

/// Where a tensor lies: as usual, or in memory of allocate(), from an odd element on.
at::Tensor copied(SharedSums& sums, const at::Tensor& values, bool in_place) {
  if (!in_place) return values.clone();
  const at::Tensor block = sums.allocate(values.numel() + 3, values.scalar_type());
  return block.narrow(0, 3, values.numel()).copy_(values);
}

TEST(SharedSums, InSharedMemoryAreTheSameBits) {
  for (const int world_size : {2, 3, 5}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kInt}) {
      for (const std::int64_t size : {5, 30011, 400003}) {
        std::vector<at::Tensor> shares;
        for (int rank = 0; rank < world_size; ++rank)
          shares.push_back(share_of(rank, {size}, type));
        const at::Tensor wanted = in_order(world_size, {size}, type);
        // Everybody's tensor, and all but that of one rank.
        for (const int other : {world_size, 1}) {
          const auto errors = run_ranks(world_size, [&](SharedSums& sums, int rank) {
            const at::Tensor& share = shares[static_cast<std::size_t>(rank)];
            const at::Tensor tensor = copied(sums, share, rank != other);
            for (int time = 0; time < 2; ++time) {
              tensor.copy_(share);
              sum(sums, tensor);
              EXPECT_TRUE(tensor.equal(wanted)) << world_size << " " << type << " " << size;
            }
          });
          EXPECT_THAT(errors, Each(""));
        }
      }
    }
  }
}

TEST(SharedSums, InSharedMemoryAfterARankWasLostFail) {
  const auto errors = run_ranks(3, [](SharedSums& sums, int rank) {
    const at::Tensor tensor = sums.allocate(400003, at::kFloat);
    tensor.fill_(1);
    sum(sums, tensor);
    if (rank == 1) return;
    EXPECT_ANY_THROW(sum(sums, tensor));
    EXPECT_ANY_THROW(sum(sums, tensor));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(SharedSums, TakeEveryShape) {
  const auto errors = run_ranks(2, [](SharedSums& sums, int rank) {
    const at::Tensor columns = at::full({40, 30}, rank + 1.0).t();
    sum(sums, columns);
    EXPECT_TRUE(columns.equal(at::full({30, 40}, 3.0)));
    const at::Tensor none = at::empty({0});
    sum(sums, none);
    const at::Tensor parameter = at::full({40, 30}, rank + 1.0).t().requires_grad_();
    sum(sums, parameter);
    EXPECT_TRUE(parameter.equal(at::full({30, 40}, 3.0)));
    const at::Tensor number = at::full({}, rank + 1.0);
    sum(sums, number);
    EXPECT_EQ(number.item<double>(), 3);
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_FALSE(SharedSums::can_sum(at::ones({2}, at::kBool)));
  EXPECT_TRUE(SharedSums::can_sum(at::ones({2}, at::kHalf)));
}

TEST(SharedSums, ManyAreUnderWayAtOnce) {
  constexpr int kMany = 200;
  const auto errors = run_ranks(3, [](SharedSums& sums, int rank) {
    std::vector<at::Tensor> tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < kMany; ++i) {
      tensors.push_back(at::full({1 + 997 * (i % 5)}, static_cast<double>(rank * i)));
      works.push_back(start(sums, tensors.back()));
    }
    for (int i = 0; i < kMany; ++i) {
      works[static_cast<std::size_t>(i)]->wait();
      const at::Tensor& sum = tensors[static_cast<std::size_t>(i)];
      EXPECT_TRUE(sum.equal(at::full({sum.size(0)}, 3.0 * i)));
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(SharedSums, BroadcastsAmongSums) {
  const auto errors = run_ranks(3, [](SharedSums& sums, int rank) {
    for (int i = 0; i < 50; ++i) {
      const int from = i % 3;
      const at::Tensor flags = at::full({1 + 40000 * (i % 7)}, rank == from, at::kBool);
      const at::Tensor numbers = at::full({3, 400}, rank + i, at::kLong).t();
      const auto work = sums.start({flags, kTimeout, from, {}});
      if (i % 2 == 0) start(sums, at::ones({5}));
      sums.run({numbers, kTimeout, from, {}})->wait();
      EXPECT_TRUE(flags.all().item<bool>());
      EXPECT_TRUE(numbers.equal(at::full({400, 3}, from + i, at::kLong)));
      work->wait();
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(SharedSums, GatherTensorsByRank) {
  const auto errors = run_ranks(3, [](SharedSums& sums, int rank) {
    for (const std::int64_t rows : {0, 1, 7, 300000}) {
      const at::Tensor tensor = at::full({rows, 2}, rank + 1, at::kLong);
      std::vector<at::Tensor> outputs;
      for (int i = 0; i < 3; ++i)
        outputs.push_back(i == 1 ? at::zeros({2, rows}, at::kLong).t() : at::zeros_like(tensor));
      EXPECT_TRUE(SharedSums::can_gather(tensor, outputs));
      const auto work = rows == 7 ? sums.start({tensor, kTimeout, {}, outputs})
                                  : sums.run({tensor, kTimeout, {}, outputs});
      work->wait();
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(outputs[static_cast<std::size_t>(i)].equal(at::full_like(tensor, i + 1)));
        EXPECT_TRUE(
            work->result()[static_cast<std::size_t>(i)].equal(at::full_like(tensor, i + 1)));
      }
    }
  });
  EXPECT_THAT(errors, Each(""));
  const at::Tensor numbers = at::ones({2, 3});
  EXPECT_FALSE(SharedSums::can_gather(numbers, {at::ones({2, 3}), at::ones({3, 2})}));
  EXPECT_FALSE(SharedSums::can_gather(numbers, {at::ones({2, 3}, at::kInt)}));
}

TEST(SharedSums, ASumAndABroadcastDoNotMeet) {
  const auto errors = run_ranks(2, [](SharedSums& sums, int rank) {
    const at::Tensor tensor = at::ones({10});
    (rank == 0 ? start(sums, tensor) : sums.start({tensor, kTimeout, 0, {}}))->wait();
  });
  EXPECT_THAT(errors, Each(HasSubstr("another rank does something else")));
}

TEST(SharedSums, RanksThatDisagreeAllSaySo) {
  for (const bool is_type : {false, true}) {
    const auto errors = run_ranks(3, [&](SharedSums& sums, int rank) {
      const bool is_odd = rank == 2;
      sum(sums, at::ones({is_odd && !is_type ? 7 : 8}, is_odd && is_type ? at::kInt : at::kFloat));
    });
    EXPECT_THAT(errors, Each(HasSubstr("another rank does something else")));
  }
}

TEST(SharedSums, ARankThatDoesNotComeIsNamedAndLaterSumsFailAtOnce) {
  std::latch given_up(2);
  const auto errors = run_ranks(3, [&](SharedSums& sums, int rank) {
    sum(sums, at::ones({10}));
    if (rank == 1) {
      given_up.wait();
    } else {
      EXPECT_ANY_THROW(sum(sums, at::ones({10})));
      given_up.count_down();
    }
    sum(sums, at::ones({10}));
  });
  // Of the two that wait the first to give up names it.
  const auto named = HasSubstr("rank 1 did not come in time");
  EXPECT_THAT(errors, Contains(named));
  EXPECT_THAT(errors, Each(AnyOf(named, HasSubstr("a rank has given up"))));
}

TEST(SharedSums, TheWorkOfAFailedSumSaysSo) {
  const auto errors = run_ranks(2, [](SharedSums& sums, int rank) {
    if (rank == 1) return;
    const c10::intrusive_ptr<c10d::Work> work = start(sums, at::ones({10}));
    EXPECT_ANY_THROW(work->wait());
    EXPECT_TRUE(work->isCompleted());
    EXPECT_FALSE(work->isSuccess());
    EXPECT_NE(work->exception(), nullptr);
    EXPECT_ANY_THROW(work->getFuture()->value());
    EXPECT_ANY_THROW(run(sums, at::ones({10}))->wait());
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(SharedSums, TheCallerHimselfDoesWhatHeWaitsFor) {
  const auto errors = run_ranks(3, [](SharedSums& sums, int rank) {
    for (int i = 0; i < 100; ++i) {
      const at::Tensor before = at::full({1 + i % 2 * 200000}, rank + 1.0);
      const auto started = start(sums, before);
      const at::Tensor tensor = at::full({1 + i % 3 * 100000}, rank + 1.0);
      const auto work = run(sums, tensor);
      EXPECT_TRUE(work->isCompleted());
      EXPECT_TRUE(tensor.equal(at::full_like(tensor, 6.0)));
      started->wait();
      EXPECT_TRUE(before.equal(at::full_like(before, 6.0)));
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(SharedSums, ACallbackWaitsForAnotherSum) {
  const auto errors = run_ranks(2, [](SharedSums& sums, int) {
    for (int i = 0; i < 10; ++i) {
      const auto future = start(sums, at::ones({3}))
                              ->getFuture()
                              ->then(
                                  [&sums, i](c10::ivalue::Future& done) -> c10::IValue {
                                    const at::Tensor second = done.value().toTensorVector()[0] * 10;
                                    (i % 2 == 0 ? run(sums, second) : start(sums, second))->wait();
                                    return second;
                                  },
                                  c10::TensorType::get());
      future->waitAndThrow();
      EXPECT_TRUE(future->value().toTensor().equal(at::full({3}, 40.0)));
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(SharedSums, DestructorWaitsForStartedCalls) {
  std::vector<at::Tensor> tensors{at::ones({400000}), at::ones({400000})};
  const auto errors = run_ranks(2, [&](SharedSums& sums, int rank) {
    const at::Tensor& tensor = tensors[static_cast<std::size_t>(rank)];
    if (rank == 0) {
      start(sums, tensor);
      return;
    }
    start(sums, tensor);
    sums.drain();
    EXPECT_TRUE(tensor.equal(at::full({400000}, 2.0)));
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_TRUE(tensors[0].equal(tensors[1]));
}

TEST(SharedSums, AWaitEndsAtItsOwnTimeOut) {
  std::latch has_waited(1);
  const auto errors = run_ranks(2, [&](SharedSums& sums, int rank) {
    const at::Tensor tensor = at::ones({10});
    if (rank == 1) has_waited.wait();
    const auto work = start(sums, tensor);
    if (rank == 0) {
      EXPECT_ANY_THROW(work->wait(50ms));
      has_waited.count_down();
    }
    work->wait();
    EXPECT_TRUE(tensor.equal(at::full({10}, 2.0)));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(SharedSums, AbandonFailsTheCallsOfOtherRanks) {
  const auto errors = run_ranks(2, [](SharedSums& sums, int rank) {
    if (rank == 1) {
      sums.abandon();
    } else {
      sum(sums, at::ones({10}));
    }
  });
  EXPECT_THAT(errors[0], AnyOf(HasSubstr("a rank has given up"), HasSubstr("rank 1 has ended")));
  EXPECT_EQ(errors[1], "");
}

}  // namespace
}  // namespace ddp::worker
