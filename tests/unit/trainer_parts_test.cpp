// The small parts around the training page: batches, models, meters, snapshots, schedule, console.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/unit/scratch.h"
#include "worker/data/loader.h"
#include "worker/dist/alone.h"
#include "worker/model/registry.h"
#include "worker/save/safetensors.h"
#include "worker/train/console.h"
#include "worker/train/meters.h"
#include "worker/train/snapshot.h"
#include "worker/train/trainer.h"
#include "worker/train/versions.h"

namespace ddp::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ImageSet tiny_set() {
  ImageSet set;
  set.name = "tiny";
  set.count = 3;
  set.channels = 1;
  set.height = 1;
  set.width = 2;
  set.classes = 10;
  set.pixels = {0, 255, 51, 102, 255, 255};
  set.labels = {3, 1, 9};
  set.mean = {0.5F};
  set.deviation = {0.25F};
  return set;
}

TEST(Loader, NormalisesAndKeepsTheOrder) {
  const ImageSet set = tiny_set();
  const Loader loader(set, at::kFloat);
  const std::vector<std::int64_t> indices{2, 0};
  const Batch batch = loader.load(indices);
  EXPECT_EQ(batch.images.sizes(), (at::IntArrayRef{2, 1, 1, 2}));
  EXPECT_TRUE(at::allclose(batch.images.flatten(), at::tensor({2.0F, 2.0F, -2.0F, 2.0F})));
  EXPECT_TRUE(batch.labels.equal(at::tensor({9, 3}, at::kLong)));
  const std::vector<std::int64_t> outside{3};
  EXPECT_THROW((void)loader.load(outside), std::out_of_range);
}

TEST(Models, ConvNetHasTheShapesOfTheManual) {
  const Model model = build_model({"convnet", 1, 28, 28, 10});
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::int64_t numbers = 0;
  for (const auto& item : model->named_parameters()) {
    shapes[item.key()] = item.value().sizes().vec();
    numbers += item.value().numel();
  }
  const std::map<std::string, std::vector<std::int64_t>> expected{{"conv1.weight", {24, 1, 5, 5}},
                                                                  {"conv1.bias", {24}},
                                                                  {"conv2.weight", {32, 24, 3, 3}},
                                                                  {"conv2.bias", {32}},
                                                                  {"fc1.weight", {256, 800}},
                                                                  {"fc1.bias", {256}},
                                                                  {"fc2.weight", {10, 256}},
                                                                  {"fc2.bias", {10}}};
  EXPECT_EQ(shapes, expected);
  EXPECT_EQ(numbers, 215'194);
  EXPECT_EQ(model->forward(torch::zeros({2, 1, 28, 28})).sizes(), (at::IntArrayRef{2, 10}));
}

TEST(Models, ChannelsLastChangesTheLayoutAndNotTheResult) {
  torch::manual_seed(1);
  const Model model = build_model({"convnet", 1, 28, 28, 10});
  const at::Tensor x = torch::randn({4, 1, 28, 28});
  const at::Tensor before = model->forward(x);
  use_channels_last(*model);
  const at::Tensor weight = model->named_parameters()["conv1.weight"];
  EXPECT_EQ(weight.strides(), (at::IntArrayRef{25, 1, 5, 1}))
      << "one input channel must change too";
  EXPECT_TRUE(at::allclose(model->forward(x), before, 1e-4, 1e-5));
}

TEST(Models, TooSmallImagesAndUnknownNamesAreRefused) {
  EXPECT_THROW(build_model({"convnet", 1, 11, 28, 10}), UsageError);
  EXPECT_THROW(build_model({"nonsense", 1, 28, 28, 10}), UsageError);
}

TEST(Meters, AddUpToTheMeanOverSamples) {
  const at::Tensor scores = at::tensor({2.0F, 0.0F, 0.0F, 3.0F, 5.0F, 1.0F}).view({3, 2});
  const at::Tensor labels = at::tensor({0, 1, 1}, at::kLong);
  Meter meter = measure(at::tensor(0.5), scores, labels);
  EXPECT_DOUBLE_EQ(meter.correct, 2);
  meter += Meter{4.5, 0, 3};
  EXPECT_DOUBLE_EQ(meter.mean_loss(), 1.0);
  EXPECT_EQ(to_meter(to_tensor(meter)), meter);
}

class SnapshotTest : public ::testing::Test {
 protected:
  Scratch scratch_;
  std::filesystem::path file_ = scratch_.path() / "x.safetensors";
};

TEST_F(SnapshotTest, ComesBackBitForBitWhateverTheLayout) {
  const std::unique_ptr<Group> group = make_alone();
  const at::Tensor weight = torch::randn({8, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  SharedState shared;
  shared.model = {{"weight", weight}, {"count", at::tensor({7}, at::kLong)}};
  const Snapshot snapshot = take_snapshot(*group, shared, Meter{1, 2, 3});
  write_safetensors(file_, view(snapshot.model));

  std::vector<NamedTensor> target{
      {"weight", at::zeros({8, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"count", at::zeros({1}, at::kLong)}};
  copy_from(read_safetensors(file_), "file", target);
  EXPECT_TRUE(target[0].tensor.equal(weight));
  EXPECT_TRUE(target[0].tensor.is_contiguous(at::MemoryFormat::ChannelsLast))
      << "the layout stays the target's";
  EXPECT_EQ(target[1].tensor.item<std::int64_t>(), 7);
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

// Buffers of a failed device would be waited for.
TEST(Rewind, PutsBackAtItsEndButNotWhenAnExceptionEndsIt) {
  const at::Tensor buffer = at::zeros({2});
  const auto change = [&buffer](bool fails) {
    const Rewind rewind({{"buffer", buffer}});
    buffer.fill_(1);
    if (fails) throw std::runtime_error("a lost peer");
  };
  change(false);
  EXPECT_TRUE(buffer.equal(at::zeros({2})));
  EXPECT_THROW(change(true), std::runtime_error);
  EXPECT_TRUE(buffer.equal(at::ones({2})));
}

TEST(MakeSchedule, TheLastStepIsNeverWarmUp) {
  Job job;
  job.schedule.name = "cosine";
  job.epochs = 1;
  job.schedule.warmup = 5;
  EXPECT_EQ(make_schedule(job, 10).warmup, 9);
  job.epochs = 10;
  EXPECT_EQ(make_schedule(job, 10).warmup, 50);
  EXPECT_EQ(make_schedule(job, 10).steps, 100);
}

TEST(MakeSchedule, EpochsOfTheJobBecomeSteps) {
  Job job;
  job.schedule.name = "multistep";
  job.schedule.warmup = 0;
  job.schedule.milestones = {1, 3};
  job.epochs = 4;
  job.optimizer.lr = 1;
  const Schedule schedule = make_schedule(job, 10);
  EXPECT_EQ(schedule.milestones, (std::vector<std::int64_t>{10, 30}));
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 39), 0.01);
}

TEST(Console, TheBatchIsAnEquation) {
  EXPECT_EQ(batch_line({64, 2, 256}, 2), "batch: 64 per rank x 2 ranks x 2 accumulate = 256");
}

TEST(Console, ATableHasARowPerEpoch) {
  EpochRecord record;
  record.train_loss = 0.5;
  record.train_accuracy = 0.9;
  EpochRecord evaluated = record;
  evaluated.epoch = 1;
  evaluated.test_loss = 0.25;
  evaluated.test_accuracy = 0.975;
  const std::string table = final_table({record, evaluated});
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
  EXPECT_THAT(table, HasSubstr("97.50 %"));
}

TEST(Versions, HeadersAndLibraryAgree) {
  EXPECT_NO_THROW(check_torch_version());
  EXPECT_THAT(version_text(), HasSubstr("LibTorch 2.11"));
}

}  // namespace
}  // namespace ddp::worker
