// What ranks do with states that were kept from an earlier round: who has the newest, and that all
// have it then.
#include "worker/train/survivor.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/unit/ranks.h"
#include "worker/train/checkpointer.h"

namespace ddp::worker {
namespace {

constexpr int kRanks = 3;

const SumNames kNames{.parts = {"box"}, .counts = {"hits"}};

Position position_of(std::int64_t step) {
  Position position;
  position.step = step;
  position.epoch = 2;
  position.step_in_epoch = step % 4;
  position.epoch_sums = {8, 3.5, 8, {0.25}, {5}};
  position.best_state = {0.75, 1};
  position.result = 0.75;
  position.last_step_sums = {4, 1.5, 4, {0.125}, {3}};
  return position;
}

/// Weights in another layout than C order, a buffer of whole numbers, momentum, and what
/// evaluations change.
SharedState state_of(double value) {
  const at::Tensor weight =
      at::full({8, 3, 5, 5}, value).contiguous(at::MemoryFormat::ChannelsLast);
  return {.model = {{"weight", weight}, {"count", at::full({1}, static_cast<std::int64_t>(value))}},
          .optimizer = {{"weight/momentum", at::full({8}, 2 * value, at::kDouble)}},
          .policy = {{"factor", at::full({1}, 3 * value, at::kDouble)}}};
}

void expect_same_state(const std::vector<NamedTensor>& found,
                       const std::vector<NamedTensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i].tensor.equal(expected[i].tensor)) << found[i].name;
}

void expect_same_state(const SharedState& found, const SharedState& expected) {
  expect_same_state(found.model, expected.model);
  expect_same_state(found.optimizer, expected.optimizer);
  expect_same_state(found.policy, expected.policy);
}

/// What find_newest() says on every rank, where each holds a state of that many steps.
std::vector<std::optional<int>> newest_of(const std::vector<std::int64_t>& steps) {
  return on_ranks(static_cast<int>(steps.size()), [&](Group& group) {
    const std::int64_t mine = steps[static_cast<std::size_t>(group.rank())];
    const HeldState held{position_of(mine), {}};
    return find_newest(group, mine == kNoStep ? nullptr : &held);
  });
}

TEST(Survivors, TheMostStepsAreTheNewestState) {
  using Answers = std::vector<std::optional<int>>;
  EXPECT_EQ(newest_of({kNoStep, 7, 9}), Answers(kRanks, 2));
  EXPECT_EQ(newest_of({8, 9, 9}), Answers(kRanks, 1)) << "the lowest of equal ones";
  EXPECT_EQ(newest_of({kNoStep, 0, kNoStep}), Answers(kRanks, 1)) << "no step done is a state too";
  EXPECT_EQ(newest_of({kNoStep, kNoStep, kNoStep}), Answers(kRanks, std::nullopt));
}

TEST(Survivors, AllRanksGetTheHoldersStateBitForBit) {
  constexpr int kHolder = 1;
  const Position expected = position_of(41);
  on_ranks(kRanks, [&](Group& group) {
    const SharedState held = state_of(7);
    SharedState shared = state_of(group.rank());
    const bool is_holder = group.rank() == kHolder;
    const Position position = restore_from_rank(group,
                                                kHolder,
                                                is_holder ? &expected : nullptr,
                                                is_holder ? &held : nullptr,
                                                kNames,
                                                shared);
    expect_same_state(shared, held);
    EXPECT_TRUE(shared.model[0].tensor.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_EQ(position.step, expected.step);
    EXPECT_EQ(position.epoch, expected.epoch);
    EXPECT_EQ(position.step_in_epoch, expected.step_in_epoch);
    EXPECT_EQ(position.epoch_sums, expected.epoch_sums);
    EXPECT_EQ(position.last_step_sums, expected.last_step_sums);
    EXPECT_EQ(position.best_state, expected.best_state);
    EXPECT_EQ(position.result, expected.result);
    return 0;
  });
}

/// A checkpointer's restore() on three ranks of which `holders` hold a state of step 41; where it
/// has come from, and the step.
std::vector<std::pair<bool, std::int64_t>> restore_with(const std::vector<int>& holders) {
  Job job;
  job.batch.global_batch = 1;
  job.checkpoint.resume = "auto";
  return on_ranks(kRanks, [&](Group& group) {
    SharedState shared = state_of(group.rank());
    std::optional<HeldState> held;
    const bool is_holder = std::ranges::find(holders, group.rank()) != holders.end();
    if (is_holder) held = HeldState{position_of(41), state_of(7)};
    const std::unique_ptr<Group> alone = single_process_group();
    const at::Tensor weight = at::ones({1}).requires_grad_();
    DdpRequest request;
    request.parameters = {{"weight", weight}};
    Ddp replica(request, *alone);
    ProgressPage page;
    Checkpointer checkpointer({.job = job,
                               .group = group,
                               .replica = replica,
                               .shared = shared,
                               .page = page,
                               .run_id = {},
                               .held = &held});
    const Position position = checkpointer.restore(kNames);
    EXPECT_FALSE(checkpointer.is_from_memory() && held) << "its memory is given back";
    if (checkpointer.is_from_memory()) expect_same_state(shared, state_of(7));
    return std::pair(checkpointer.is_from_memory(), position.step);
  });
}

TEST(Survivors, ARunGoesOnFromMemoryWhereOneRankHasIt) {
  using Answers = std::vector<std::pair<bool, std::int64_t>>;
  EXPECT_EQ(restore_with({2}), Answers(kRanks, {true, 41}));
  EXPECT_EQ(restore_with({0, 1}), Answers(kRanks, {true, 41}));
  EXPECT_EQ(restore_with({}), Answers(kRanks, {false, 0})) << "the beginning: nothing was saved";
}

}  // namespace
}  // namespace ddp::worker
