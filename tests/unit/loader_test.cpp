// Batches, loaded here and ahead.
#include "worker/data/loading/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "common/error.h"
#include "worker/data/sets/memory_source.h"

namespace ddp::worker {
namespace {

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
  set.standard_deviation = {0.25F};
  return set;
}

TEST(Loader, NormalisesAndKeepsTheOrder) {
  const Loader loader(std::make_shared<MemorySource>(tiny_set()), {});
  const std::vector<std::int64_t> indices{2, 0};
  const Batch batch = loader.load(indices);
  EXPECT_EQ(batch.input.sizes(), (at::IntArrayRef{2, 1, 1, 2}));
  EXPECT_TRUE(at::allclose(batch.input.flatten(), at::tensor({2.0F, 2.0F, -2.0F, 2.0F})));
  EXPECT_TRUE(batch.targets.at(0).values.equal(at::tensor({9, 3}, at::kLong)));
  EXPECT_EQ(batch.indices, indices);
  const std::vector<std::int64_t> outside{3};
  EXPECT_THROW((void)loader.load(outside), std::out_of_range);
}

TEST(Loader, TellsAugmentationsTheEpochOfABatch) {
  const Augment mark = [](Sample& sample, Random& random, const Source&) {
    sample.input.bytes[0] = static_cast<std::uint8_t>(random.epoch());
  };
  ImageSet set = tiny_set();
  set.mean = {0};
  set.standard_deviation = {1};
  for (const int threads : {0, 2}) {
    Loader loader(std::make_shared<MemorySource>(set), {.augments = {mark}, .threads = threads});
    loader.start([epoch = std::int64_t{3}]() mutable -> std::optional<MicroBatch> {
      if (epoch == 6) return {};
      return MicroBatch{{0, 1}, epoch++};
    });
    for (const float epoch : {3.0F, 4.0F, 5.0F})
      EXPECT_NEAR(loader.next().input.flatten()[0].item<float>(), epoch / 255, 1e-6);
  }
}

/// Plays the way to a device: counts what was sent, and by whom it is taken.
struct Sent {
  std::atomic<int> sent = 0;
  std::atomic<int> taken = 0;
  std::atomic<int> most_ahead = 0;
  std::atomic<bool> is_taken_elsewhere = false;
  int failing = -1;  // which send fails

  StartCopy as_send() {
    return [this, owner = std::this_thread::get_id()](const Batch& batch) -> FinishCopy {
      if (sent++ == failing) throw std::runtime_error("no room on the device");
      most_ahead = std::max<int>(most_ahead, sent - taken);
      // A copy, as of a device: the buffer's memory is free from now on.
      const Batch there{batch.input.clone(), batch.targets, batch.indices};
      return [this, owner, there] {
        if (std::this_thread::get_id() != owner) is_taken_elsewhere = true;
        ++taken;
        return there;
      };
    };
  }
};

Loader::NextMicroBatch plans_up_to(std::int64_t count) {
  return [next = std::int64_t{0}, count]() mutable -> std::optional<MicroBatch> {
    if (next == count) return {};
    const std::int64_t index = next++ % 3;
    return MicroBatch{{index, (index + 1) % 3}, 0};
  };
}

TEST(Loader, BatchesThatAreSentAheadAreThoseThatAreNot) {
  constexpr std::int64_t kBatches = 50;
  Loader plain(std::make_shared<MemorySource>(tiny_set()), {});
  plain.start(plans_up_to(kBatches));
  for (const int threads : {0, 1, 3}) {
    Sent way;
    Loader loader(std::make_shared<MemorySource>(tiny_set()),
                  {.threads = threads, .send = way.as_send()});
    // What was begun for other plans is thrown away.
    loader.start(plans_up_to(7));
    (void)loader.next();
    loader.start(plans_up_to(kBatches));
    plain.start(plans_up_to(kBatches));
    for (std::int64_t i = 0; i < kBatches; ++i) {
      const Batch batch = loader.next();
      const Batch wanted = plain.next();
      ASSERT_TRUE(batch.input.equal(wanted.input)) << threads << " threads, batch " << i;
      ASSERT_EQ(batch.indices, wanted.indices);
    }
    EXPECT_THROW((void)loader.next(), std::logic_error);
    EXPECT_LE(way.sent - way.taken, 1) << "one of the other plans was thrown away, at most";
    EXPECT_LE(way.most_ahead, 3) << "that one, the one that is being taken, and one ahead";
    EXPECT_FALSE(way.is_taken_elsewhere);
  }
}

TEST(Loader, ABatchThatCannotBeSentIsThrownInItsTurn) {
  for (const int threads : {0, 2}) {
    Sent way;
    way.failing = 2;
    Loader loader(std::make_shared<MemorySource>(tiny_set()),
                  {.threads = threads, .send = way.as_send()});
    loader.start(plans_up_to(5));
    (void)loader.next();
    (void)loader.next();
    EXPECT_THROW((void)loader.next(), std::runtime_error) << threads;
    EXPECT_NO_THROW((void)loader.next()) << threads;
  }
}

/// Sample i is i numbers, and has a row of two numbers for each of i boxes and one name.
class Boxes : public Source {
 public:
  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  void read(std::int64_t index, Sample& into) const override {
    const std::vector<float> input{static_cast<float>(index), 1};
    into.input.assign({2}, std::span(input));
    into.targets.resize(2);
    const std::vector<float> rows(static_cast<std::size_t>(2 * index), static_cast<float>(index));
    into.targets[0].assign({index, 2}, std::span(rows));
    into.targets[1].assign({}, std::span<const std::int64_t>(&index, 1));
  }

 private:
  DataFacts facts_{"boxes", 5, {2}, 0, {}, {}};
};

TEST(Loader, TargetsOfAnyLengthAreCounted) {
  const Loader loader(std::make_shared<Boxes>(), {});
  const std::vector<std::int64_t> indices{2, 0, 1};
  const Batch batch = loader.load(indices);
  EXPECT_TRUE(batch.input.equal(at::tensor({2.0F, 1.0F, 0.0F, 1.0F, 1.0F, 1.0F}).view({3, 2})));
  const Target& boxes = batch.targets.at(0);
  EXPECT_EQ(boxes.values.sizes(), (at::IntArrayRef{3, 2}));
  EXPECT_TRUE(boxes.rows.equal(at::tensor({2, 0, 1}, at::kLong)));
  EXPECT_TRUE(boxes.values.equal(at::tensor({2.0F, 2.0F, 2.0F, 2.0F, 1.0F, 1.0F}).view({3, 2})));
  EXPECT_TRUE(batch.targets.at(1).values.equal(at::tensor({2, 0, 1}, at::kLong)));
  EXPECT_FALSE(batch.targets.at(1).rows.defined());
}

TEST(Loader, AugmentationsAreDrawnByEpochAndSampleAlone) {
  const Augment jitter = [](Sample& sample, Random& random, const Source&) {
    for (std::uint8_t& pixel : sample.input.bytes)
      pixel = static_cast<std::uint8_t>(random.below(256));
  };
  const auto source = std::make_shared<MemorySource>(tiny_set());
  const Loader loader(source, {.augments = {jitter}, .seed = 7});
  const std::vector<std::int64_t> forwards{0, 1, 2};
  const std::vector<std::int64_t> last{2};
  const at::Tensor all = loader.load(forwards, 3).input;
  EXPECT_TRUE(loader.load(last, 3).input[0].equal(all[2])) << "anyone who is beside it";
  EXPECT_FALSE(loader.load(last, 4).input[0].equal(all[2])) << "another epoch";
  EXPECT_FALSE(all[0].equal(all[1]));
}

TEST(Loader, InputsOfDifferentShapesAreRefused) {
  const Augment crop = [](Sample& sample, Random&, const Source&) {
    if (sample.index != 1) return;
    sample.input.shape = {1, 1, 1};
    sample.input.bytes.resize(1);
  };
  const Loader loader(std::make_shared<MemorySource>(tiny_set()), {.augments = {crop}});
  const std::vector<std::int64_t> indices{0, 1};
  try {
    (void)loader.load(indices);
    FAIL() << "they do not fit one tensor";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("differ in their inputs: 1x1x1 after 1x1x2"));
  }
}

/// Sample i is one grey image of 4x4 with the byte i, and its number; its reading takes a time that
/// no other's takes. Every tenth is bad.
class Slow : public Source {
 public:
  explicit Slow(std::int64_t bad_every) : bad_every_(bad_every) {}
  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  void read(std::int64_t index, Sample& into) const override {
    if (index >= facts_.count) throw UsageError("there is no sample " + std::to_string(index));
    // Some take much longer than others.
    for (volatile std::int64_t left = index * 7919 % 100 * 1000; left > 0;)
      left = left - 1;
    ++reads;
    if (bad_every_ > 0 && index % bad_every_ == 0)
      throw BadSample("sample " + std::to_string(index) + " is damaged");
    const std::vector<std::uint8_t> pixels(16, static_cast<std::uint8_t>(index));
    into.input.assign({1, 4, 4}, std::span(pixels));
    into.targets.resize(1);
    into.targets[0].assign({}, std::span<const std::int64_t>(&index, 1));
  }

  mutable std::atomic<int> reads{0};

 private:
  std::int64_t bad_every_;
  DataFacts facts_{"slow", 100, {1, 4, 4}, 100, {0.5F}, {0.25F}};
};

/// All batches of two epochs, one behind the other.
struct Course {
  at::Tensor input;
  at::Tensor labels;
  std::vector<std::int64_t> indices;
  Loader::Bad bad;
};

Course walk(int threads, std::int64_t bad_every, LoaderOptions::OnBad on_bad = {}) {
  const Augment noise = [](Sample& sample, Random& random, const Source&) {
    for (std::uint8_t& pixel : sample.input.bytes)
      pixel = static_cast<std::uint8_t>(random.below(256));
  };
  Loader loader(std::make_shared<Slow>(bad_every),
                {.augments = {noise}, .seed = 3, .threads = threads, .on_bad = on_bad});
  PartitionOptions options{.size = 100, .global_batch = 13, .micro_batch = 7, .seed = 5};
  loader.start([partition = PartitionWalk(options, 0, 2)]() mutable { return partition.next(); });
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> labels;
  Course course;
  for (int i = 0; i < 24; ++i) {
    const Batch batch = loader.next();
    inputs.push_back(batch.input.clone());
    labels.push_back(batch.targets.at(0).values);
    course.indices.insert(course.indices.end(), batch.indices.begin(), batch.indices.end());
  }
  course.input = at::cat(inputs);
  course.labels = at::cat(labels);
  course.bad = loader.take_bad_samples();
  return course;
}

TEST(Loader, BatchesAreTheSameForAnyNumberOfThreads) {
  const Course alone = walk(0, 0);
  EXPECT_GT(alone.input.size(0), 100) << "over the border of an epoch";
  for (const int threads : {1, 2, 8}) {
    const Course many = walk(threads, 0);
    EXPECT_EQ(many.indices, alone.indices) << threads;
    EXPECT_TRUE(many.input.equal(alone.input)) << threads;
    EXPECT_TRUE(many.labels.equal(alone.labels)) << threads;
  }
}

TEST(Loader, D3BadSamplesAreReplacedByTheNextOnes) {
  const Course alone = walk(0, 10);
  EXPECT_EQ(alone.indices.size(), walk(0, 0).indices.size());
  EXPECT_EQ(alone.bad.at(20), "sample 20 is damaged");
  EXPECT_EQ(std::ranges::count_if(alone.indices, [](auto index) { return index % 10 == 0; }), 0);
  EXPECT_TRUE(alone.labels.equal(at::tensor(alone.indices, at::kLong)));
  const Course many = walk(3, 10);
  EXPECT_EQ(many.indices, alone.indices);
  EXPECT_EQ(many.bad, alone.bad);
  EXPECT_TRUE(many.input.equal(alone.input));
}

TEST(Loader, D3BadSamplesAreLeftOut) {
  const Course course = walk(2, 10, LoaderOptions::OnBad::leave_out);
  EXPECT_LT(course.indices.size(), walk(0, 0).indices.size());
  EXPECT_TRUE(course.labels.equal(at::tensor(course.indices, at::kLong)));
  EXPECT_EQ(course.input.size(0), course.labels.size(0));
}

TEST(Loader, HundredBadSamplesInARowEndTheRun) {
  try {
    (void)walk(2, 1);
    FAIL() << "there is no sample that can be read";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("slow: 100 samples one after the other cannot be read"));
  }
}

TEST(Loader, LoaderReadsTwoBatchesMoreThanItHasThreads) {
  const auto source = std::make_shared<Slow>(0);
  Loader loader(source, {.threads = 2});
  int planned = 0;
  loader.start([&planned]() -> std::optional<MicroBatch> {
    ++planned;
    return MicroBatch{{1, 2, 3}};
  });
  (void)loader.next();
  const auto wait_for = [&](int reads, std::chrono::milliseconds time) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (source->reads < reads && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
  };
  wait_for(15, std::chrono::seconds(10));
  wait_for(16, std::chrono::milliseconds(20));
  EXPECT_EQ(source->reads, 3 * (1 + 2 + 2)) << "as many as there are threads, and two more";
  (void)loader.next();
  loader.start([] { return std::optional<MicroBatch>(); });
  EXPECT_THROW((void)loader.next(), std::logic_error);
}

TEST(Loader, AnotherStartThrowsAwayWhatWasAhead) {
  Loader loader(std::make_shared<Slow>(0), {.threads = 3});
  for (std::int64_t first = 0; first < 50; ++first) {
    loader.start([first]() mutable { return MicroBatch{{first++}}; });
    EXPECT_EQ(loader.next().indices, std::vector<std::int64_t>{first});
    EXPECT_EQ(loader.next().indices, std::vector<std::int64_t>{first + 1});
  }
}

TEST(Loader, AnErrorComesWithItsBatch) {
  for (const int threads : {0, 2}) {
    Loader loader(std::make_shared<Slow>(0), {.threads = threads});
    loader.start([next = std::int64_t{98}]() mutable { return MicroBatch{{next++}}; });
    EXPECT_EQ(loader.next().indices.at(0), 98);
    EXPECT_EQ(loader.next().indices.at(0), 99);
    EXPECT_THROW((void)loader.next(), UsageError) << threads;
  }
}

TEST(Loader, MemoryIsUsedAgainOnceNobodyHoldsIt) {
  Loader loader(std::make_shared<Slow>(0), {});
  loader.start([next = std::int64_t{0}]() mutable { return MicroBatch{{next++}}; });
  const Batch held = loader.next();
  const at::Tensor copy = held.input.clone();
  const void* last = nullptr;
  int repeats = 0;
  for (int i = 0; i < 10; ++i) {
    const Batch batch = loader.next();
    EXPECT_NE(batch.input.data_ptr(), held.input.data_ptr());
    repeats += batch.input.data_ptr() == last ? 1 : 0;
    last = batch.input.data_ptr();
  }
  EXPECT_TRUE(held.input.equal(copy));
  EXPECT_GE(repeats, 8);
}

void expect_what_torch_computes(const std::vector<float>& mean,
                                const std::vector<float>& deviation) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const PixelTable table(mean, deviation, type);
    const at::Tensor bytes = at::randint(0, 256, {2, 3, 5, 7}, at::kByte);
    const at::Tensor expected = bytes.to(type)
                                    .div(255)
                                    .sub(at::tensor(mean).to(type).view({1, 3, 1, 1}))
                                    .div(at::tensor(deviation).to(type).view({1, 3, 1, 1}));
    for (const auto layout : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const at::Tensor batch = at::empty({2, 3, 5, 7}, type, layout);
      for (int row = 0; row < 2; ++row)
        table.write({bytes[row].data_ptr<std::uint8_t>(), 105}, batch, row);
      EXPECT_TRUE(batch.equal(expected)) << layout;
    }
  }
}

TEST(PixelTable, NormalizedPixelsEqualTorchBitForBit) {
  at::manual_seed(1);
  expect_what_torch_computes({0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F});
  expect_what_torch_computes({0, 0, 0}, {1, 1, 1});
  expect_what_torch_computes({0, 0, 0}, {1, 0.5F, 1});
  expect_what_torch_computes({0, 0.25F, 0}, {1, 1, 1});
}

}  // namespace
}  // namespace ddp::worker
