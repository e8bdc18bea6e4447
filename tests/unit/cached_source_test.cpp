#include "worker/data/loading/cached_source.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace ddp::worker {
namespace {

/// Ten samples of 100 bytes, and a label of 8; number 7 is bad. Counts who asks.
class Counted : public Source {
 public:
  Counted() {
    facts_.name = "counted";
    facts_.count = 10;
  }
  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  void read(std::int64_t index, Sample& into) const override {
    ++reads;
    if (index < 0 || index >= 10) throw std::out_of_range("no such sample");
    if (index == 7) throw BadSample("7");
    const std::vector<std::uint8_t> pixels(100, static_cast<std::uint8_t>(index));
    into.input.assign({1, 10, 10}, std::span(pixels));
    into.targets.resize(1);
    into.targets[0].assign({}, std::span<const std::int64_t>(&index, 1));
  }
  mutable std::atomic<int> reads = 0;

 private:
  DataFacts facts_;
};

void expect_same(const Source& one, const Source& other, std::int64_t index) {
  Sample sample;
  Sample wanted;
  one.read(index, sample);
  other.read(index, wanted);
  EXPECT_EQ(sample.input, wanted.input);
  EXPECT_EQ(sample.targets, wanted.targets);
}

TEST(CachedSource, ReadsNothingTwice) {
  const auto source = std::make_shared<Counted>();
  const CachedSource kept(source, 10'000);
  const Counted plain;
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t index : {0, 5, 9, 5})
      expect_same(kept, plain, index);
  }
  EXPECT_EQ(source->reads, 3);
}

TEST(CachedSource, ReaderMayChangeItsSample) {
  const CachedSource kept(std::make_shared<Counted>(), 10'000);
  Sample sample;
  for (int round = 0; round < 3; ++round) {
    kept.read(4, sample);
    EXPECT_EQ(sample.input.bytes[3], 4);
    sample.input.bytes[3] = 77;
  }
}

TEST(CachedSource, LendsWhatItKeeps) {
  const CachedSource kept(std::make_shared<Counted>(), 10'000);
  EXPECT_EQ(kept.kept(4), nullptr) << "it was not read yet";
  Sample sample;
  kept.read(4, sample);
  ASSERT_NE(kept.kept(4), nullptr);
  EXPECT_EQ(kept.kept(4)->input, sample.input);
  EXPECT_EQ(kept.kept(4)->targets, sample.targets);
  EXPECT_EQ(kept.kept(5), nullptr);
  EXPECT_EQ(kept.kept(-1), nullptr);
  EXPECT_EQ(kept.kept(10), nullptr);
  EXPECT_EQ(Counted().kept(4), nullptr) << "others keep nothing";
}

TEST(CachedSource, KeepsNoMoreThanItMay) {
  const auto source = std::make_shared<Counted>();
  const CachedSource kept(source, 2 * 108 + 107);
  const Counted plain;
  for (int round = 0; round < 2; ++round) {
    for (const std::int64_t index : {1, 2, 3})
      expect_same(kept, plain, index);
  }
  EXPECT_EQ(source->reads, 4) << "the third has no room";
}

TEST(CachedSource, ErrorsAreThoseOfTheSource) {
  const CachedSource kept(std::make_shared<Counted>(), 10'000);
  Sample sample;
  for (int round = 0; round < 2; ++round) {
    EXPECT_THROW(kept.read(7, sample), BadSample);
    EXPECT_THROW(kept.read(10, sample), std::out_of_range);
    EXPECT_THROW(kept.read(-1, sample), std::out_of_range);
  }
}

TEST(CachedSource, ManyThreadsReadAtOnce) {
  const auto source = std::make_shared<Counted>();
  const CachedSource kept(source, 5 * 108);
  const Counted plain;
  {
    std::vector<std::jthread> threads;
    for (int k = 0; k < 4; ++k) {
      threads.emplace_back([&] {
        for (int i = 0; i < 700; ++i)
          expect_same(kept, plain, i % 7);
      });
    }
  }
  const int before = source->reads;
  for (std::int64_t index = 0; index < 7; ++index)
    expect_same(kept, plain, index);
  EXPECT_EQ(source->reads - before, 2) << "five of them are kept";
}

}  // namespace
}  // namespace ddp::worker
