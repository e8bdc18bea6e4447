// Several ranks equal one process on the joined batch. Reference: plain autograd and plain updates
// in this file, without Ddp. Double precision: what is left is the order of sums, a few 1e-16.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/distributed/c10d/debug.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/error.h"
#include "ranks.h"
#include "worker/dist/ddp.h"
#include "worker/dist/sync_batch_norm.h"

namespace ddp::worker {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kInputs = 5;
constexpr std::int64_t kOutputs = 3;
constexpr double kRate = 0.02;
constexpr int kSteps = 4;  // buckets are rebuilt after the first
constexpr double kBound = 1e-12;

using Windows = std::vector<std::vector<std::int64_t>>;  // sizes of a step's micro-steps, by rank

struct ParityCase {
  Windows windows;
  DdpRequest request;
  // A layer beside the path: part of the loss of all samples, of none, or of rank 0's.
  enum class Side { used, unused, rank_0 } side = Side::used;
};

at::Tensor draw(std::uint64_t seed, at::IntArrayRef shape) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble));
}

struct Net {
  explicit Net(std::uint64_t seed) {
    const auto add = [this, seed](const std::string& name, at::IntArrayRef shape) {
      parameters.push_back({name, draw(seed + parameters.size(), shape).requires_grad_(true)});
    };
    add("fc1.weight", {8, kInputs});
    add("fc1.bias", {8});
    add("side.weight", {kOutputs, kInputs});
    add("side.bias", {kOutputs});
    add("fc2.weight", {kOutputs, 8});
    add("fc2.bias", {kOutputs});
  }

  at::Tensor forward(const at::Tensor& x, bool with_side) const {
    const auto at = [this](std::size_t i) { return parameters[i].tensor; };
    at::Tensor y = at::linear(at::tanh(at::linear(x, at(0), at(1))), at(4), at(5));
    return with_side ? y + at::linear(x, at(2), at(3)) : y;  // [B, kOutputs]
  }

  std::vector<NamedTensor> parameters;
};

at::Tensor mean_loss(const at::Tensor& y) {
  return y.square().sum(1).mean();
}

std::int64_t sum(const std::vector<std::int64_t>& sizes) {
  std::int64_t total = 0;
  for (const std::int64_t size : sizes)
    total += size;
  return total;
}

std::int64_t whole_step(const Windows& windows) {
  std::int64_t whole = 0;
  for (const std::vector<std::int64_t>& window : windows)
    whole += sum(window);
  return whole;
}

// The samples of a step, and where those of `rank` begin.
at::Tensor samples_of(int step, const ParityCase& one) {
  return draw(1000 + static_cast<std::uint64_t>(step), {whole_step(one.windows), kInputs});
}

std::int64_t begin_of(int rank, const ParityCase& one) {
  std::int64_t begin = 0;
  for (int before = 0; before < rank; ++before)
    begin += sum(one.windows[static_cast<std::size_t>(before)]);
  return begin;
}

void update(const std::vector<NamedTensor>& parameters, const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (gradients[i].defined()) parameters[i].tensor.sub_(gradients[i], kRate);
}

using Gradients = std::vector<at::Tensor>;  // of all steps, one after the other

Gradients train_joined(const ParityCase& one) {
  const Net net(/*seed=*/0);
  Gradients all;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor x = samples_of(step, one);
    at::Tensor loss = mean_loss(net.forward(x, one.side == ParityCase::Side::used));
    if (one.side == ParityCase::Side::rank_0) {
      const std::int64_t first = sum(one.windows[0]);
      const at::Tensor y = at::cat({net.forward(x.narrow(0, 0, first), true),
                                    net.forward(x.narrow(0, first, x.size(0) - first), false)});
      loss = mean_loss(y);
    }
    torch::autograd::backward({loss}, {});
    Gradients gradients;
    for (const NamedTensor& parameter : net.parameters) {
      at::Tensor& gradient = parameter.tensor.mutable_grad();
      gradients.push_back(gradient.defined() ? gradient.clone() : at::zeros_like(parameter.tensor));
      gradient = at::Tensor();
    }
    update(net.parameters, gradients);
    all.insert(all.end(), gradients.begin(), gradients.end());
  }
  return all;
}

Gradients train_rank(const ParityCase& one, Group& group) {
  // Every rank draws other weights: the broadcast gives it those of rank 0.
  const Net net(/*seed=*/static_cast<std::uint64_t>(100 * group.rank()));
  DdpRequest request = one.request;
  request.parameters = net.parameters;
  Ddp replica(request, group);
  const std::vector<std::int64_t>& window = one.windows[static_cast<std::size_t>(group.rank())];
  const bool with_side = one.side == ParityCase::Side::used ||
                         (one.side == ParityCase::Side::rank_0 && group.is_root());
  Gradients all;
  for (int step = 0; step < kSteps; ++step) {
    at::Tensor x = samples_of(step, one);
    x = x.narrow(0, begin_of(group.rank(), one), sum(window));
    std::int64_t begin = 0;
    for (std::size_t micro = 0; micro < window.size(); ++micro) {
      const bool reduce = micro + 1 == window.size();
      if (reduce) replica.prepare_to_reduce();
      const at::Tensor loss = mean_loss(net.forward(x.narrow(0, begin, window[micro]), with_side));
      const double share = loss_factor(window[micro], whole_step(one.windows), group.world_size());
      replica.backward(loss * share, reduce);
      begin += window[micro];
    }
    const Gradients gradients = replica.gradients();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const bool is_unused = one.side == ParityCase::Side::unused && (i == 2 || i == 3);
      EXPECT_EQ(gradients[i].defined(), !is_unused) << net.parameters[i].name;
      all.push_back(is_unused ? at::zeros_like(net.parameters[i].tensor) : gradients[i].clone());
    }
    update(net.parameters, gradients);
    replica.remove_gradients();
  }
  EXPECT_TRUE(replica.diverged_ranks().empty());
  const std::optional<DdpTimings> timings = replica.timings();
  EXPECT_EQ(timings->has_rebuilt_buckets, !one.request.find_unused || one.request.static_graph);
  return all;
}

double worst_difference(const Gradients& actual, const Gradients& expected) {
  double worst = actual.size() == expected.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double scale = std::max(expected[i].abs().max().item<double>(), 1e-3);
    worst = std::max(worst, (actual[i] - expected[i]).abs().max().item<double>() / scale);
  }
  return worst;
}

void expect_equal_to_joined(ParityCase one, double bound = kBound) {
  one.request.bucket_bytes = 100;  // several buckets
  const Gradients expected = train_joined(one);
  const std::vector<Gradients> ranks = on_ranks(
      static_cast<int>(one.windows.size()), [&](Group& group) { return train_rank(one, group); });
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_LE(worst_difference(ranks[rank], expected), bound) << "rank " << rank;
    EXPECT_EQ(worst_difference(ranks[rank], ranks[0]), 0) << "rank " << rank;
  }
}

// `parts` for each rank.
Windows windows(int world_size, const std::vector<std::int64_t>& parts) {
  return Windows(static_cast<std::size_t>(world_size), parts);
}

TEST(DdpTimings, TheSlowFirstStepsAreForgotten) {
  constexpr std::chrono::milliseconds kSlow(50);
  const std::vector<double> means = on_ranks(2, [&](Group& group) {
    const Net net(0);
    DdpRequest request;
    request.parameters = net.parameters;
    Ddp replica(request, group);
    for (int step = 0; step < 22; ++step) {
      replica.prepare_to_reduce();
      const auto begin = std::chrono::steady_clock::now();
      while (step <= 10 && std::chrono::steady_clock::now() - begin < kSlow) {
      }
      replica.backward(mean_loss(net.forward(draw(1, {4, kInputs}), true)), true);
      replica.remove_gradients();
    }
    return replica.timings()->forward;
  });
  for (const double mean : means)
    EXPECT_LT(mean, 40);
}

TEST(DdpParity, PlainRanksEqualOneOnTheJoinedBatch) {
  for (const int world_size : {2, 3, 4})
    expect_equal_to_joined({windows(world_size, {4}), {}});
}

TEST(DdpParity, AccumulationEqualsOneBatchAlsoWithAShortLastMicroStep) {
  for (const int world_size : {2, 3, 4}) {
    expect_equal_to_joined({windows(world_size, {4, 4, 4}), {}});
    expect_equal_to_joined({windows(world_size, {4, 4, 1}), {}});
    expect_equal_to_joined({windows(world_size, {2}), {}});
  }
}

TEST(DdpParity, UnequalBatchesNeitherHangNorBias) {
  expect_equal_to_joined({{{4}, {1}}, {}});
  expect_equal_to_joined({{{4, 4}, {4, 2}, {3, 1}}, {}});
  // Even the number of micro-steps may differ: one backward of each rank reduces.
  expect_equal_to_joined({{{4, 4, 2}, {5}}, {}});
}

TEST(DdpParity, AnUnusedLayerIsFoundAndHasNoGradient) {
  DdpRequest request;
  request.find_unused = true;
  for (const int world_size : {2, 3, 4}) {
    expect_equal_to_joined({windows(world_size, {4}), request, ParityCase::Side::unused});
    expect_equal_to_joined({windows(world_size, {4, 1}), request, ParityCase::Side::unused});
  }
}

TEST(DdpParity, ALayerThatOneRankUsesIsReduced) {
  DdpRequest request;
  request.find_unused = true;
  for (const int world_size : {2, 3, 4}) {
    expect_equal_to_joined({windows(world_size, {4}), request, ParityCase::Side::rank_0});
    expect_equal_to_joined({windows(world_size, {4, 1}), request, ParityCase::Side::rank_0});
  }
}

// Trap: without delay_all_reduce() after the first backward ranks drift apart from step 1.
TEST(DdpParity, AStaticGraphEqualsOneOnTheJoinedBatch) {
  DdpRequest request;
  request.static_graph = true;
  for (const int world_size : {2, 3, 4})
    expect_equal_to_joined({windows(world_size, {4}), request, ParityCase::Side::unused});
  request.find_unused = true;  // means nothing more
  expect_equal_to_joined({windows(2, {4}), request, ParityCase::Side::unused});
}

// Each value is rounded once on its way out and once per addition, to 11 bits (a unit is 2^-11 =
// 4.9e-4 of it) or 8 bits (2^-8 = 3.9e-3); measured by a tensor's largest gradient. The weights of
// the reference drift away by as much, times kRate, each step.
TEST(DdpParity, HooksDivideAndKeepTheBitsTheyPromise) {
  DdpRequest request;
  for (const int world_size : {2, 3, 4}) {
    request.hook = CommHook::fp16;
    expect_equal_to_joined({windows(world_size, {4}), request}, 3e-3);
    expect_equal_to_joined({windows(world_size, {4, 4, 1}), request}, 3e-3);
    request.hook = CommHook::bf16;
    expect_equal_to_joined({windows(world_size, {4}), request}, 2.5e-2);
  }
}

TEST(DdpParity, AHookWorksWithAnUnusedLayer) {
  DdpRequest request;
  request.hook = CommHook::bf16;
  request.find_unused = true;
  expect_equal_to_joined({windows(2, {4}), request, ParityCase::Side::unused}, 2.5e-2);
  expect_equal_to_joined({windows(2, {4}), request, ParityCase::Side::rank_0}, 2.5e-2);
}

// What c10d prints of it names indices, and comes one step too late.
TEST(Ddp, AParameterWithoutGradientIsNamedInTheSameStep) {
  ParityCase one{windows(2, {4}), {}, ParityCase::Side::unused};
  const std::vector<std::string> messages = on_ranks(2, [&](Group& group) {
    const Net net(0);
    DdpRequest request;
    request.parameters = net.parameters;
    Ddp replica(request, group);
    replica.prepare_to_reduce();
    try {
      replica.backward(mean_loss(net.forward(samples_of(0, one), false)), /*reduce=*/true);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  });
  EXPECT_THAT(messages[1], HasSubstr("no gradient for side.weight, side.bias on rank 1"));
  EXPECT_THAT(messages[0], HasSubstr("ddp.find_unused=true"));
}

bool is_in_shared_memory(const void* data) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    if (begin <= address && address < end) return line.find("ddp-sums") != std::string::npos;
  }
  return false;
}

// Trap: zero_grad() would throw "Can't detach views in-place", or leave gradients that no bucket
// knows. Ours stay where they are, also those of a layer nobody uses.
TEST(Ddp, GradientsStayViewsOfTheirBuckets) {
  const auto addresses = [](const Ddp& replica) {
    std::vector<const void*> all;
    for (const at::Tensor& gradient : replica.gradients())
      all.push_back(gradient.defined() ? gradient.data_ptr() : nullptr);
    return all;
  };
  Device shares_memory;
  shares_memory.shared_memory = SharedMemory::required;
  for (const CommHook hook : {CommHook::none, CommHook::bf16}) {
    on_ranks(
        2,
        [&](Group& group) {
          const Net net(0);
          DdpRequest request;
          request.parameters = net.parameters;
          request.static_graph = true;
          request.hook = hook;
          Ddp replica(request, group);
          EXPECT_EQ(replica.bucket_warmup_steps(), 2);
          std::vector<const void*> first;
          std::vector<const void*> settled;
          for (int step = 0; step < 6; ++step) {
            replica.prepare_to_reduce();  // makes new buckets once
            replica.backward(mean_loss(net.forward(draw(1, {2, kInputs}), false)), /*reduce=*/true);
            const std::vector<const void*> reduced = addresses(replica);
            if (step == 0) first = reduced;
            if (step == replica.bucket_warmup_steps()) settled = reduced;
            if (step > replica.bucket_warmup_steps()) {
              EXPECT_EQ(reduced, settled) << "step " << step;
            }
            replica.remove_gradients();
          }
          EXPECT_NE(settled, first);
          // So that their sums need no copy.
          EXPECT_TRUE(is_in_shared_memory(settled[0]));
          return 0;
        },
        shares_memory);
  }
}

// Trap: c10d then asserts that every parameter has a name.
TEST(Ddp, DebuggingOfC10dFindsNothingWrong) {
  DdpRequest request;
  request.find_unused = true;
  const c10d::DebugLevel before = c10d::debug_level();
  c10d::setDebugLevel(c10d::DebugLevel::Detail);
  expect_equal_to_joined({windows(2, {2}), request, ParityCase::Side::unused});
  expect_equal_to_joined({windows(2, {2, 1}), {}});
  c10d::setDebugLevel(before);
}

// Trap: c10d's own comparison throws on every rank but 0, and ends the process here, where a rank's
// tensor has other dimensions.
TEST(Ddp, ADifferentModelIsRefusedOnEveryRankBeforeAnythingIsSent) {
  const std::vector<std::string> messages = on_ranks(3, [](Group& group) {
    Net net(0);
    if (group.rank() == 1) net.parameters[4].tensor = draw(1, {kOutputs, 8, 1});
    try {
      group.require_same("model", describe_model(net.parameters, {}));
    } catch (const PeerError& error) {
      EXPECT_EQ(error.code(), exit_code::kRefused);
      return std::string(error.what());
    }
    return std::string("no error");
  });
  for (const std::string& message : messages) {
    EXPECT_THAT(message, HasSubstr("rank 1"));
    EXPECT_THAT(message, HasSubstr("parameter fc2.weight: Double [3, 8, 1]"));
    EXPECT_THAT(message, HasSubstr("parameter fc2.weight: Double [3, 8]"));
  }
}

TEST(Ddp, UnusedParametersAreNamedOnce) {
  DdpRequest request;
  request.find_unused = true;
  testing::internal::CaptureStdout();  // where an unopened log writes
  expect_equal_to_joined({windows(2, {2}), request, ParityCase::Side::unused});
  const std::string log = testing::internal::GetCapturedStdout();
  const std::string names = "unused in the first step, by every rank: side.weight, side.bias.";
  EXPECT_THAT(log, HasSubstr(names));
  EXPECT_EQ(log.find(names), log.rfind(names)) << log;
}

TEST(Ddp, ASearchThatFindsNothingSaysSo) {
  const auto train = [](Group& group) {
    const Net net(0);
    DdpRequest request;
    request.parameters = net.parameters;
    request.find_unused = true;
    Ddp replica(request, group);
    replica.prepare_to_reduce();
    replica.backward(mean_loss(net.forward(draw(1, {2, kInputs}), true)), /*reduce=*/true);
    return 0;
  };
  testing::internal::CaptureStdout();
  on_ranks(2, train);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("ddp.find_unused is on, and"));
}

// Trap: the reducer would give wrong gradients without a word.
TEST(Ddp, AStaticGraphRefusesToAccumulate) {
  const auto train = [](Group& group) {
    const Net net(0);
    DdpRequest request;
    request.parameters = net.parameters;
    request.static_graph = true;
    Ddp replica(request, group);
    replica.backward(mean_loss(net.forward(draw(1, {2, kInputs}), true)), /*reduce=*/false);
    return 0;
  };
  EXPECT_THROW(on_ranks(1, train), std::logic_error);
  EXPECT_THROW(on_ranks(2, train), std::logic_error);
}

TEST(Ddp, AFlippedBitNamesItsRank) {
  const std::vector<std::vector<int>> found = on_ranks(3, [](Group& group) {
    const Net net(0);
    const NamedTensor momentum{"momentum", at::zeros({4}, at::kDouble)};
    DdpRequest request;
    request.parameters = net.parameters;
    Ddp replica(request, group);
    EXPECT_TRUE(replica.diverged_ranks({momentum}).empty());
    void* const memory =
        group.rank() == 2 ? momentum.tensor.data_ptr() : net.parameters[4].tensor.data_ptr();
    if (group.rank() > 0) static_cast<unsigned char*>(memory)[9] ^= 0x10;
    std::vector<int> odd = replica.diverged_ranks();
    odd.push_back(-1);
    for (const int rank : replica.diverged_ranks({momentum}))
      odd.push_back(rank);
    return odd;
  });
  // By weights rank 1 alone is odd. With other state no two ranks agree, and rank 0 counts.
  for (const std::vector<int>& odd : found)
    EXPECT_EQ(odd, (std::vector<int>{1, -1, 1, 2}));
}

// Batch norm with two forward passes and one backward per step. A copy of buffers between the two
// may not disturb the backward of the first.
struct NormNet {
  explicit NormNet(const MakeNorm& make) : norm(make(4)) {
    norm->to(at::kDouble);
    weight = draw(7, {4, 2, 1, 1}).requires_grad_(true);
  }
  at::Tensor forward(const at::Tensor& x) const { return norm->forward(at::conv2d(x, weight)); }
  DdpRequest request() const {
    DdpRequest request;
    request.parameters = {
        {"conv.weight", weight}, {"bn.weight", norm->weight}, {"bn.bias", norm->bias}};
    request.buffers = {{"bn.running_mean", norm->running_mean},
                       {"bn.running_var", norm->running_var},
                       {"bn.num_batches_tracked", norm->num_batches_tracked}};
    return request;
  }
  std::shared_ptr<Norm> norm;
  at::Tensor weight;
};

std::vector<Gradients> train_twice(BufferSync sync, bool between) {
  return on_ranks(2, [&](Group& group) {
    const NormNet net(batch_norm());
    DdpRequest request = net.request();
    request.buffer_sync = sync;
    Ddp replica(request, group);
    Gradients results;
    for (std::uint64_t step = 0; step < 3; ++step) {
      const std::uint64_t seed = 10 * step + 2 * static_cast<std::uint64_t>(group.rank());
      if (!between) replica.prepare_to_reduce();
      const at::Tensor first = net.forward(draw(50 + seed, {3, 2, 2, 2}));
      if (between) replica.prepare_to_reduce();
      const at::Tensor second = net.forward(draw(51 + seed, {3, 2, 2, 2}));
      replica.backward((first * second).square().mean(), /*reduce=*/true);
      for (const at::Tensor& gradient : replica.gradients())
        results.push_back(gradient.clone());
      update(replica.parameters(), replica.gradients());
      replica.remove_gradients();
    }
    EXPECT_TRUE(replica.diverged_ranks().empty());
    const at::Tensor own = net.norm->running_mean.clone();
    replica.sync_buffers();
    results.push_back(own);
    results.push_back(net.norm->running_mean);
    results.push_back(net.norm->num_batches_tracked);
    return results;
  });
}

TEST(Ddp, BatchNormWithTwoForwardsTrainsForEachKindOfBufferSync) {
  const std::vector<Gradients> never = train_twice(BufferSync::never, false);
  for (const BufferSync sync : {BufferSync::automatic, BufferSync::each_step, BufferSync::never}) {
    for (const bool between : {false, true}) {
      const std::vector<Gradients> ranks = train_twice(sync, between);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        // In training mode running statistics have no say in the gradients.
        for (std::size_t i = 0; i < 9; ++i)
          EXPECT_TRUE(ranks[rank][i].equal(never[0][i])) << "gradient " << i;
        const bool is_synced = sync != BufferSync::never;
        EXPECT_FALSE(ranks[1][9].equal(ranks[0][9])) << "after training each has its own";
        EXPECT_EQ(ranks[1][10].equal(ranks[0][9]), is_synced) << "after sync_buffers() rank 0's";
        EXPECT_EQ(ranks[rank][11].item<std::int64_t>(), 6);
      }
    }
  }
}

TEST(DdpParity, SyncBatchNormOverUnevenBatchesEqualsOneOnTheJoinedBatch) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{5, 2}, {3, 1, 4}, {2, 1, 3, 2}}) {
    const int world_size = static_cast<int>(sizes.size());
    const at::Tensor x = draw(60, {sum(sizes), 2, 3, 3});
    const NormNet joined(batch_norm());
    torch::autograd::backward({joined.forward(x).pow(3).mean()}, {});
    const std::vector<Gradients> ranks = on_ranks(world_size, [&](Group& group) {
      const NormNet net(sync_batch_norm(group));
      DdpRequest request = net.request();
      request.has_sync_batch_norm = true;
      Ddp replica(request, group);
      replica.prepare_to_reduce();
      std::int64_t begin = 0;
      for (int before = 0; before < group.rank(); ++before)
        begin += sizes[static_cast<std::size_t>(before)];
      const std::int64_t mine = sizes[static_cast<std::size_t>(group.rank())];
      const at::Tensor loss = net.forward(x.narrow(0, begin, mine)).pow(3).mean();
      replica.backward(loss * loss_factor(mine, sum(sizes), world_size), /*reduce=*/true);
      Gradients results = replica.gradients();
      results.push_back(net.norm->running_mean);
      results.push_back(net.norm->running_var);
      return results;
    });
    const Gradients expected{joined.weight.grad(),
                             joined.norm->weight.grad(),
                             joined.norm->bias.grad(),
                             joined.norm->running_mean,
                             joined.norm->running_var};
    for (const Gradients& rank : ranks)
      EXPECT_LE(worst_difference(rank, expected), kBound);
  }
}

TEST(ModelDigest, HoldsAllThatRanksMustHaveInCommon) {
  const at::Tensor weight = at::zeros({2, 3, 4, 4});
  const NamedTensor buffer{"bn.num_batches_tracked", at::zeros({}, at::kLong)};
  EXPECT_EQ(describe_model({{"conv.weight", weight}}, {buffer}),
            "parameter conv.weight: Float [2, 3, 4, 4]\n"
            "buffer bn.num_batches_tracked: Long []\n");
  const at::Tensor last = weight.contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(describe_model({{"conv.weight", last}}, {}),
            "parameter conv.weight: Float [2, 3, 4, 4], strides [48, 1, 12, 3]\n");
}

TEST(LossFactor, AddsUpToTheWorldSize) {
  EXPECT_DOUBLE_EQ(loss_factor(4, 8, 2), 1);
  EXPECT_DOUBLE_EQ(loss_factor(4, 10, 2) + loss_factor(4, 10, 2) + loss_factor(2, 10, 2), 2);
}

}  // namespace
}  // namespace ddp::worker
