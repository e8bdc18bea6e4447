// The small parts around the training page: batches, models, meters, snapshots, schedule, console.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "tests/unit/scratch.h"
#include "worker/data/loading/loader.h"
#include "worker/data/sets/memory_source.h"
#include "worker/dist/single_process_group.h"
#include "worker/model/model_factory.h"
#include "worker/plan/run_plan.h"
#include "worker/save/format/safetensors.h"
#include "worker/task/classification.h"
#include "worker/train/console_lines.h"
#include "worker/train/registry.h"
#include "worker/train/snapshot.h"
#include "worker/train/step/meters.h"
#include "worker/train/torch_version.h"

namespace ddp::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

Pass pass_of(const at::Tensor& total, std::int64_t samples) {
  Pass pass;
  pass.batch.input = at::zeros({samples, 1});
  pass.loss.total = total;
  return pass;
}

/// Counts the samples twice.
class Doubled : public Task {
 public:
  torch::nn::Module& model() override { return model_; }
  Outputs forward(const Batch&) override { return {}; }
  Loss loss(const Outputs&, const Batch&) override { return {}; }
  std::vector<NamedTensor> counts(const Outputs&, const Batch& batch) override {
    return {{"twice", at::full({}, 2 * batch.size())}};
  }

 private:
  torch::nn::Module model_;
};

TEST(Meters, AStepIsThereWhenTheNextOneIsDone) {
  Doubled task;
  PassSums learned;
  Pass pass = pass_of(at::tensor(0.5), 3);
  pass.loss.parts = {{"box", at::tensor(0.25)}};
  learned.add(task, pass);
  Meters meters(learned.names());
  const std::unique_ptr<Group> alone = single_process_group();
  EXPECT_EQ(meters.names().parts, std::vector<std::string>{"box"});
  EXPECT_EQ(meters.names().counts, std::vector<std::string>{"twice"});
  meters.add(task, pass);
  pass.loss.total = at::tensor(2.0);
  pass.batch.input = at::zeros({1, 1});
  meters.add(task, pass);
  meters.close_step(1);
  EXPECT_FALSE(meters.take(*alone, false)) << "the newest one is on its way";
  meters.add(task, pass);
  meters.close_step(2);
  const std::optional<Meters::Closed> first = meters.take(*alone, false);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->step, 1);
  EXPECT_EQ(first->sums, (StepSums{4, 3.5, 4, {1.0}, {8}}));
  EXPECT_DOUBLE_EQ(first->sums.mean_loss(), 3.5 / 4);
  EXPECT_FALSE(meters.take(*alone, false));
  const std::optional<Meters::Closed> second = meters.take(*alone, true);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->sums, (StepSums{1, 2, 1, {0.25}, {2}}));
  EXPECT_FALSE(meters.take(*alone, true));
  const StepSums& sums = first->sums;
  EXPECT_EQ(meters.names().to_sums(SumNames::to_row(sums)), sums);
  EXPECT_EQ(meters.names().count_means(sums), (NamedValues{{"twice", 2}}));
}

TEST(Meters, ALossWithAWeightIsDividedByIt) {
  Doubled task;
  PassSums sums;
  Pass pass = pass_of(at::tensor(6.0), 3);
  pass.loss.weight = at::tensor(1.5);
  sums.add(task, pass);
  pass.loss.weight = at::tensor(2.5);
  sums.add(task, pass);
  EXPECT_DOUBLE_EQ(sums.sums().mean_loss(), 3);
  EXPECT_DOUBLE_EQ(sums.sums().samples, 6);
}

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

TEST_F(SnapshotTest, WhatAnEvaluationHasChangedSinceComesBack) {
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
  loaded.head.later = later_values(shared, position);
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

TEST(MakeSchedule, TheLastStepIsNeverWarmUp) {
  Job job;
  job.schedule.name = "cosine";
  job.epochs = 1;
  job.schedule.warmup = 5;
  EXPECT_EQ(make_schedule(job, 10, 10).warmup, 9);
  job.epochs = 10;
  EXPECT_EQ(make_schedule(job, 10, 100).warmup, 50);
  EXPECT_EQ(make_schedule(job, 10, 100).steps, 100);
}

TEST(MakeSchedule, EpochsOfTheJobBecomeSteps) {
  Job job;
  job.schedule.name = "multistep";
  job.schedule.warmup = 0;
  job.schedule.milestones = {1, 3};
  job.epochs = 4;
  job.optimizer.lr = 1;
  const Schedule schedule = make_schedule(job, 10, 40);
  EXPECT_EQ(schedule.milestones, (std::vector<std::int64_t>{10, 30}));
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 39), 0.01);
}

TEST(Console, TheBatchIsAnEquation) {
  EXPECT_EQ(batch_line({64, 2, 256}, 2, 2), "batch: 64 per rank x 2 ranks x 2 accumulate = 256");
  EXPECT_EQ(batch_line({64, 4, 256}, 1, 4),
            "batch: 64 per rank x 1 rank x 4 accumulate = 256, as this run began with 4 ranks: its "
            "batch and rates stay");
}

TEST(Console, ALineOfAnEpochLeavesOutWhatWouldMakeItWrap) {
  EpochRecord record;
  record.train = {{"loss", 0.5}, {"accuracy", 0.9}, {"loss/box", 1}};
  record.test = {{"loss", 0.25}, {"accuracy", 0.975}};
  record.images_per_s = 7390;
  record.seconds = 1.6;
  record.data_wait = 0.009;
  const std::string head =
      "epoch 1/3 | train loss 0.5000 accuracy 90.00 % | test loss 0.2500 accuracy 97.50 %";
  EXPECT_EQ(epoch_line(record, 3), head + " | 7390 images/s | 1.6 s, data wait 0.9 %");
  EXPECT_EQ(epoch_line(record, 3, 200), epoch_line(record, 3));
  EXPECT_EQ(epoch_line(record, 3, 110), head + " | 7390 images/s | 1.6 s");
  EXPECT_EQ(epoch_line(record, 3, 94), head + " | 1.6 s");
  EXPECT_EQ(epoch_line(record, 3, 60), head) << "what was measured stays";
}

TEST(Console, ATableHasARowPerEpoch) {
  EpochRecord record;
  record.train = {{"loss", 0.5}, {"accuracy", 0.9}};
  EpochRecord evaluated = record;
  evaluated.epoch = 1;
  evaluated.test = {{"loss", 0.25}, {"accuracy", 0.975}};
  const std::string table = final_table({record, evaluated});
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
  EXPECT_THAT(table, HasSubstr("97.50 %"));
}

TEST(TopK, CountsALabelAmongTheHighestScores) {
  const std::unique_ptr<Metric> metric = make_top_k(2, 4);
  EXPECT_EQ(metric->values(), (NamedValues{{"top2_accuracy", 0}})) << "the name is there at once";
  const at::Tensor scores = at::tensor({.1, .2, .3, .4, .4, .3, .2, .1}).view({2, 4});
  Batch batch{scores, {{at::tensor({2, 3}, at::kLong), {}}}, {0, 1}};
  metric->update({scores}, batch);
  batch.targets[0].values = at::tensor({0, 1}, at::kLong);
  metric->update({scores}, batch);
  metric->merge(*single_process_group());
  EXPECT_EQ(metric->values(), (NamedValues{{"top2_accuracy", 0.5}}));
  EXPECT_THROW(make_top_k(5, 4), UsageError);
}

TEST(TopK, WhatIsNotScoresOfClassesIsRefusedWithItsShape) {
  const auto refusal = [](const Outputs& outputs, const Batch& batch) -> std::string {
    try {
      make_top_k(2, 4)->update(outputs, batch);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  const at::Tensor input = at::zeros({2, 6});
  const Batch labels{input, {{at::zeros({2}, at::kLong), {}}}, {0, 1}};
  const Batch boxes{input, {{at::zeros({5, 4}), at::tensor({2, 3}, at::kLong)}}, {0, 1}};
  EXPECT_EQ(refusal({at::zeros({2, 4})}, labels), "");
  EXPECT_EQ(refusal({at::zeros({2, 4, 3})}, labels),
            "eval.metrics: top-2 needs scores of [samples, classes], of 2 classes or more, and a "
            "label for each sample; this task gives outputs of [2x4x3] and targets of [2]. Remove "
            "it.");
  EXPECT_THAT(refusal({at::zeros({2, 4})}, boxes), HasSubstr("targets of [5x4]"));
  EXPECT_THAT(refusal({at::zeros({2, 1})}, labels), HasSubstr("outputs of [2x1]"));
  EXPECT_THAT(refusal({at::zeros({3, 4})}, labels), HasSubstr("outputs of [3x4]"));
  EXPECT_THAT(refusal({at::zeros({2, 4})}, {input, {}, {0, 1}}), HasSubstr("no targets"));
  EXPECT_THAT(refusal({}, labels), HasSubstr("no outputs"));
}

/// Keeps states of these names, and does nothing.
class Keeping : public UpdateRule {
 public:
  explicit Keeping(std::vector<std::string> names) : names_(std::move(names)) {}
  [[nodiscard]] std::vector<State> state() const override {
    std::vector<State> states;
    for (const std::string& name : names_)
      states.push_back({name});
    return states;
  }
  void step(const UpdateLists& /*lists*/, double /*lr*/, double /*decay*/) const override {}

 private:
  std::vector<std::string> names_;
};

TEST(UpdateRules, StatesWithoutANameOfTheirOwnAreRefusedWithIt) {
  const auto refusal = [](const std::vector<std::string>& names) -> std::string {
    Registry registry = built_in();
    registry.optimizers["keeping"] = [&names](const OptimizerJob& /*job*/) {
      return std::make_unique<Keeping>(names);
    };
    Job job;
    job.optimizer.name = OptimizerJob::Name::own;
    job.optimizer.name_in_job = "keeping";
    try {
      make_rule(registry, job);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({"first", "second"}), "");
  EXPECT_EQ(refusal({"first", "first"}),
            "optimizer.name: keeping keeps a state called \"first\" (UpdateRule::state()), which "
            "is taken. Give each state a name of its own.");
  EXPECT_THAT(refusal({"first", ""}),
              HasSubstr("a state called \"\" (UpdateRule::state()), which "
                        "is not a name"));
  EXPECT_THAT(refusal({"master"}), HasSubstr("\"master\""));
  EXPECT_THAT(refusal({"ema"}), HasSubstr("\"ema\""));
  Job sgd;  // keeps its momentum under the parameter's own name
  EXPECT_NO_THROW(make_rule(built_in(), sgd));
}

TEST(Versions, HeadersAndLibraryAgree) {
  EXPECT_NO_THROW(check_torch_version());
  EXPECT_THAT(version_text(), HasSubstr("LibTorch " + torch_version()));
}

}  // namespace
}  // namespace ddp::worker
