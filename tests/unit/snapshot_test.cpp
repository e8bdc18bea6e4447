#include "worker/train/snapshot.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/unit/scratch.h"
#include "worker/dist/single_process_group.h"
#include "worker/save/format/safetensors.h"

namespace ddp::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SnapshotTest : public ::testing::Test {
 protected:
  Scratch scratch_;
  std::filesystem::path file_ = scratch_.path() / "x.safetensors";
};

TEST_F(SnapshotTest, ComesBackBitForBitWhateverTheLayout) {
  const at::Tensor weight = torch::randn({8, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  SharedState shared;
  shared.model = {{"weight", weight}, {"count", at::tensor({7}, at::kLong)}};
  shared.policy = {{"factor", at::tensor({0.5}, at::kDouble)}};
  SnapshotArena arena(shared);
  const Snapshot& snapshot = arena.take(shared, {});
  EXPECT_EQ(snapshot.model[0].tensor.strides(), weight.strides()) << "copied as it lies";
  EXPECT_EQ(snapshot.optimizer.back().name, "factor");
  write_safetensors(file_, view(in_c_order(snapshot.model)));

  std::vector<NamedTensor> target{
      {"weight", at::zeros({8, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"count", at::zeros({1}, at::kLong)}};
  copy_from(read_safetensors(file_), "file", target);
  EXPECT_TRUE(target[0].tensor.equal(weight));
  EXPECT_TRUE(target[0].tensor.is_contiguous(at::MemoryFormat::ChannelsLast))
      << "the layout stays the target's";
  EXPECT_EQ(target[1].tensor.item<std::int64_t>(), 7);
}

TEST_F(SnapshotTest, TheNextOneIsInTheSameMemory) {
  const at::Tensor weight = at::ones({3});
  const SharedState shared{{{"weight", weight}}, {}};
  SnapshotArena arena(shared);
  const void* const first = arena.take(shared, {}).model[0].tensor.data_ptr();
  weight.fill_(2);
  const Snapshot& second = arena.take(shared, {});
  EXPECT_EQ(second.model[0].tensor.data_ptr(), first);
  weight.fill_(3);
  EXPECT_TRUE(second.model[0].tensor.equal(at::full({3}, 2.0))) << "training has gone on since";
}

TEST_F(SnapshotTest, TensorsOfAnySizeAndPlaceAreCopied) {
  for (const std::int64_t size : {0, 1, 63, 1000, 3'000'001}) {
    const at::Tensor all = torch::randint(256, {size + 1}, at::kByte);
    const SharedState shared{{{"whole", all}, {"not aligned", all.slice(0, 1)}}, {}};
    SnapshotArena arena(shared);
    const Snapshot& snapshot = arena.take(shared, {});
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(snapshot.model[i].tensor.equal(shared.model[i].tensor)) << size << ", " << i;
  }
  const at::Tensor gaps = torch::randn({8, 4}).slice(1, 0, 2);
  const SharedState shared{{{"gaps", gaps}}, {}};
  SnapshotArena arena(shared);
  EXPECT_TRUE(arena.take(shared, {}).model[0].tensor.equal(gaps));
}

TEST_F(SnapshotTest, ValuesChangedByALaterEvaluationAreRestored) {
  const at::Tensor factor = at::tensor({1.0}, at::kDouble);
  SharedState shared{{{"weight", at::ones({3})}}, {}, {{"factor", factor}}};
  SnapshotArena arena(shared);
  Position position;
  position.step = 9;
  const Snapshot& snapshot = arena.take(shared, position);
  write_safetensors(file_, view(snapshot.model));
  write_safetensors(scratch_.path() / "o", view(snapshot.optimizer));
  write_safetensors(scratch_.path() / "s", view(snapshot.state));
  factor.fill_(0.1);
  position.best_state = {0.75, 2};
  LoadedCheckpoint loaded{.path = "file",
                          .head = {.step = 9, .result = 0.5, .best = 0.75},
                          .model = read_safetensors(file_),
                          .optimizer = read_safetensors(scratch_.path() / "o"),
                          .state = read_safetensors(scratch_.path() / "s")};
  loaded.head.amended_tensors = amended_tensors_of(shared, position);
  factor.fill_(7);
  const std::unique_ptr<Group> alone = single_process_group();
  const Position back = restore(*alone, &loaded, Origin::same_job, {}, shared);
  EXPECT_EQ(back.best_state, position.best_state);
  EXPECT_EQ(back.result, 0.5);
  EXPECT_EQ(factor.item<double>(), 0.1);
}

TEST_F(SnapshotTest, EveryTensorThatDoesNotFitIsNamed) {
  const std::vector<NamedTensor> saved{
      {"a", at::zeros({2})}, {"b", at::zeros({2}, at::kDouble)}, {"extra", at::zeros({1})}};
  write_safetensors(file_, view(saved));
  std::vector<NamedTensor> target{
      {"a", at::ones({3})}, {"b", at::ones({2})}, {"missing", at::ones({1})}};
  try {
    copy_from(read_safetensors(file_), "file", target);
    FAIL() << "nothing fits";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("\"a\" is F32 [2], this job needs F32 [3]"),
                      HasSubstr("\"b\" is F64 [2], this job needs F32 [2]"),
                      HasSubstr("has no tensor \"missing\""),
                      HasSubstr("\"extra\" is not in this job")));
  }
  EXPECT_TRUE(target[0].tensor.equal(at::ones({3}))) << "nothing was changed";
}

// A run that was stopped goes on with train.non_finite=skip, and the other way round.
TEST_F(SnapshotTest, OptionalTensorsMayBeMissingOnEitherSide) {
  write_safetensors(file_, view({{"a", at::zeros({2})}, {"count", at::zeros({1})}}));
  std::vector<NamedTensor> target{{"a", at::ones({2})}, {"other", at::ones({1})}};
  copy_from(read_safetensors(file_), "file", target, {"count", "other"});
  EXPECT_TRUE(target[0].tensor.equal(at::zeros({2})));
  EXPECT_TRUE(target[1].tensor.equal(at::ones({1}))) << "stays as it was";
  EXPECT_THROW(copy_from(read_safetensors(file_), "file", target, {"other"}), UsageError);
  EXPECT_THROW(copy_from(read_safetensors(file_), "file", target, {"count"}), UsageError);
  std::vector<NamedTensor> misfit{{"a", at::ones({2})}, {"count", at::ones({3})}};
  EXPECT_THROW(copy_from(read_safetensors(file_), "file", misfit, {"count"}), UsageError);
}

}  // namespace
}  // namespace ddp::worker
