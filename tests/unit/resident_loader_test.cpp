// Batches of a set that lies on the device are those of the loader, on the CPU and on a device that
// does everything late.
#include "worker/data/loading/resident_loader.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>

#include "named_augments.h"
#include "step_fixture.h"
#include "tests/support/fake_gpu.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kSetSize = 50;

using Lists = std::map<std::string, std::vector<NamedAugment>>;

const Lists& lists() {
  static const Lists all{
      {"none", {}},
      {"flip", {{"flip", {}}}},
      {"zero", {{"crop", {{"size", "6"}, {"padding", "2"}}}, {"flip", {}}}},
      {"reflect", {{"crop", {{"size", "9"}, {"padding", "3"}, {"border", "reflect"}}}}},
      {"cutout", {{"cutout", {{"size", "3"}, {"count", "2"}}}, {"flip-vertical", {}}}},
      {"middle", {{"cutout", {{"size", "4"}}}, {"center-crop", {{"size", "8"}}}}},
  };
  return all;
}

std::vector<Augment> make(const std::string& list, const DataFacts& data) {
  return make_named(lists().at(list), data);
}

std::shared_ptr<const MemorySource> draw_images(std::int64_t channels) {
  return std::dynamic_pointer_cast<const MemorySource>(draw_source(kSetSize, {channels, 7, 6, 4}));
}

/// Equal bits and strides, which decide how a model computes.
void expect_same(const Batch& batch, const Batch& wanted) {
  EXPECT_EQ(batch.input.scalar_type(), wanted.input.scalar_type());
  EXPECT_TRUE(batch.input.cpu().equal(wanted.input));
  EXPECT_EQ(batch.input.strides(), wanted.input.strides());
  ASSERT_EQ(batch.targets.size(), 1U);
  EXPECT_TRUE(batch.targets[0].values.cpu().equal(wanted.targets[0].values));
  EXPECT_FALSE(batch.targets[0].rows.defined());
  EXPECT_EQ(batch.indices, wanted.indices);
}

/// From inside an epoch to inside the third, with short last steps.
void expect_same_walk(const PartitionOptions& partition,
                      const LoaderOptions& options,
                      std::int64_t channels,
                      at::Device device) {
  const std::shared_ptr<const MemorySource> source = draw_images(channels);
  Loader loader(source, options);
  ResidentLoader resident(source, options, device);
  for (BatchLoader* const one : std::initializer_list<BatchLoader*>{&loader, &resident})
    one->start([walk = PartitionWalk(partition, 3, 2)]() mutable { return walk.next(); });
  for (int i = 0; i < 25; ++i) {
    const Batch batch = resident.next();
    EXPECT_EQ(batch.input.device(), device);
    expect_same(batch, loader.next());
  }
}

class Resident : public ::testing::TestWithParam<bool> {
 protected:
  at::Device device_ = GetParam() ? fake_gpu() : at::Device(at::kCPU);
};

TEST_P(Resident, BatchesOfEachRankAreTheLoaders) {
  for (const std::int64_t channels : {1, 3}) {
    for (const auto& [name, list] : lists()) {
      for (const int rank : {0, 1}) {
        SCOPED_TRACE(name + ", rank " + std::to_string(rank) + ", " + std::to_string(channels));
        LoaderOptions options{.augments = make(name, draw_images(channels)->facts()), .seed = 7};
        // The last step has 11 samples: 6 and 5, in micro-steps of 4.
        PartitionOptions partition{.size = kSetSize,
                                   .global_batch = 13,
                                   .micro_batch = 4,
                                   .world_size = 2,
                                   .rank = rank,
                                   .seed = 5};
        expect_same_walk(partition, options, channels, device_);
        partition.size = 20;  // data.limit
        partition.repeats = options.repeats = 3;
        expect_same_walk(partition, options, channels, device_);
      }
    }
  }
}

TEST_P(Resident, BatchesHaveTheTypeAndLayoutThatTheModelTakes) {
  for (const std::int64_t channels : {1, 3}) {
    for (const std::string name : {"none", "zero"}) {
      for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
        for (const auto layout : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
          SCOPED_TRACE(name + ", " + std::to_string(channels) + at::toString(type));
          const LoaderOptions options{.type = type,
                                      .layout = layout,
                                      .augments = make(name, draw_images(channels)->facts())};
          expect_same_walk(
              {.size = kSetSize, .global_batch = 8, .micro_batch = 8}, options, channels, device_);
        }
      }
    }
  }
}

TEST_P(Resident, LoadReturnsTheSamplesOfTheHostLoader) {
  const std::shared_ptr<const MemorySource> source = draw_images(3);
  const LoaderOptions options{.augments = make("zero", source->facts()), .seed = 2, .repeats = 2};
  const Loader loader(source, options);
  const ResidentLoader resident(source, options, device_);
  const std::vector<std::int64_t> indices{49, 0, 99, 50};
  expect_same(resident.load(indices), loader.load(indices));
  expect_same(resident.load(indices, 4), loader.load(indices, 4));
  for (const std::int64_t outside : {std::int64_t{-1}, 2 * kSetSize})
    EXPECT_THROW((void)resident.load({&outside, 1}), std::out_of_range);
}

TEST_P(Resident, NextThrowsAfterTheLastPlan) {
  ResidentLoader resident(draw_images(1), {}, device_);
  EXPECT_THROW((void)resident.next(), std::logic_error);
  resident.start([left = 1]() mutable -> std::optional<MicroBatch> {
    if (left-- == 0) return {};
    return MicroBatch{{1, 2}, 0};
  });
  EXPECT_EQ(resident.next().size(), 2);
  EXPECT_THROW((void)resident.next(), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Devices, Resident, ::testing::Bool(), [](const auto& device) {
  return device.param ? "Second" : "Cpu";
});

TEST(ResidentBatches, NeitherMakeTheHostWaitNorReadMemoryTooEarly) {
  for (const auto& [name, list] : lists()) {
    const std::shared_ptr<const MemorySource> source = draw_images(3);
    ResidentLoader resident(source, {.augments = make(name, source->facts())}, fake_gpu());
    const PartitionOptions partition{.size = kSetSize, .global_batch = 8, .micro_batch = 8};
    resident.start([walk = PartitionWalk(partition, 0, 0)]() mutable { return walk.next(); });
    const DeviceCounts before = fake_gpu_counts();
    constexpr int kBatches = 100;
    for (int i = 0; i < kBatches; ++i)
      (void)resident.next();
    const DeviceCounts counts = fake_gpu_counts() - before;
    EXPECT_EQ(counts.host_waits, 0) << name;
    EXPECT_EQ(counts.event_waits, 0) << name;
    EXPECT_EQ(counts.early_frees, 0) << name;
    EXPECT_EQ(counts.copies, kBatches) << name;
    // Pixels, numbers and labels are looked up, and the channel is added; moved pixels are found by
    // one sum, and what is erased by three more.
    const int launches = name == "none" ? 4 : name == "cutout" || name == "middle" ? 8 : 5;
    EXPECT_EQ(counts.launches, launches * kBatches) << name;
  }
}

TEST(ResidentBatches, ASetTakesItsBordersItsLabelsAndTheCopyOfAPart) {
  const auto bytes_of = [](std::int64_t count, const std::vector<std::int64_t>& shape) {
    DataFacts facts;
    facts.count = count;
    facts.shape = shape;
    return ResidentLoader::bytes_of(facts);
  };
  EXPECT_EQ(bytes_of(10, {3, 7, 6}), 10 * (3 * 8 * 7 + 8) + 10 * 3 * 7 * 6);
  // 32 of 100 images of half a mebibyte are copied at once, and one of 64 MiB.
  EXPECT_EQ(bytes_of(100, {1, 1024, 512}), 100 * (1025 * 513 + 8) + (16 << 20));
  EXPECT_EQ(bytes_of(2, {1, 8192, 8192}), 2 * (8193 * 8193 + 8) + (64 << 20));
}

TEST(ResidentBatches, UnsupportedAugmentsAreFound) {
  const std::shared_ptr<const MemorySource> source = draw_images(3);
  const auto find = [&](const std::vector<NamedAugment>& list) {
    return ResidentLoader::first_unsupported(make_named(list, source->facts()));
  };
  EXPECT_EQ(find({{"flip", {}}, {"crop", {{"size", "99"}}}}), std::nullopt);
  EXPECT_EQ(find({{"flip", {}}, {"rotate", {}}}), 1U);
  EXPECT_EQ(find({{"cutout", {{"count", "64"}}}}), std::nullopt);
  EXPECT_EQ(find({{"cutout", {{"count", "40"}}}, {"cutout", {{"count", "25"}}}}), 1U);
  const Augment own = [](Sample&, Random&, const Source&) {};
  EXPECT_THROW(ResidentLoader(source, {.augments = {own}}, at::kCPU), std::logic_error);
}

}  // namespace
}  // namespace ddp::worker
