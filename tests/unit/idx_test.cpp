#include "worker/data/format/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <string>

#include "common/error.h"
#include "tests/unit/memory_limit.h"
#include "tests/unit/packing.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Bytes header(std::uint32_t magic, const std::vector<std::uint32_t>& shape) {
  Bytes bytes;
  const auto put = [&](std::uint32_t word) {
    for (const int shift : {24, 16, 8, 0})
      bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  };
  put(magic);
  for (const std::uint32_t size : shape)
    put(size);
  return bytes;
}

// [2, 2, 3] with the bytes 0 to 11.
Bytes two_images() {
  Bytes bytes = header(0x803, {2, 2, 3});
  for (std::uint8_t i = 0; i < 12; ++i)
    bytes.push_back(i);
  return bytes;
}

std::string refusal(const Bytes& bytes, int rank = 3) {
  try {
    parse_idx(bytes, "input", rank);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Idx, ReadsPlainAndPackedAlike) {
  const IdxArray plain = parse_idx(two_images(), "input", 3);
  EXPECT_THAT(plain.shape, ElementsAre(2, 2, 3));
  EXPECT_THAT(plain.bytes, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(parse_idx(gzip(two_images()), "input", 3), plain);
  EXPECT_EQ(parse_idx(xz(two_images()), "input", 3), plain);
}

TEST(Idx, ReadsFilesOfManyChunks) {
  Bytes bytes = header(0x801, {5'000'000});
  for (std::size_t i = 0; i < 5'000'000; ++i)
    bytes.push_back(static_cast<std::uint8_t>(i * 7));
  const Scratch scratch;
  for (const Bytes& form : {bytes, gzip(bytes), xz(bytes)}) {
    scratch.write("file", std::string(form.begin(), form.end()));
    const IdxArray array = read_idx(scratch.path() / "file", 1);
    ASSERT_EQ(array.bytes.size(), 5'000'000U);
    EXPECT_TRUE(std::equal(array.bytes.begin(), array.bytes.end(), bytes.begin() + 8));
  }
}

TEST(Idx, D1TruncatedFileSaysExpectedAndFoundSize) {
  Bytes bytes = two_images();
  bytes.pop_back();
  EXPECT_EQ(refusal(bytes),
            "cannot read input as IDX: expected 28 bytes (header 16 + 2 x 2 x 3), found 27: it is "
            "cut off. Get the file again");
  EXPECT_EQ(refusal(gzip(bytes)), refusal(bytes));
  EXPECT_EQ(refusal(xz(bytes)), refusal(bytes));
  EXPECT_THAT(refusal({}), HasSubstr("ends within its header"));
  EXPECT_THAT(refusal(header(0x803, {2, 2})), HasSubstr("ends within its header"));
}

TEST(Idx, D1EveryCutOfAGzipFileIsRefused) {
  const Bytes packed = gzip(two_images());
  for (std::size_t size = 0; size < packed.size(); ++size)
    EXPECT_NE(refusal(Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size))),
              "accepted")
        << size;
}

TEST(Idx, D1TrailingBytesAreRefused) {
  Bytes bytes = two_images();
  bytes.push_back(0);
  EXPECT_THAT(refusal(bytes),
              HasSubstr("expected 28 bytes (header 16 + 2 x 2 x 3), found at least 1 bytes more"));
  EXPECT_THAT(refusal(gzip(bytes)), HasSubstr("found at least 1 bytes more"));
  Bytes packed = gzip(two_images());
  packed.push_back('x');
  EXPECT_THAT(refusal(packed), HasSubstr("there are bytes after the gzip stream"));
}

TEST(Idx, D1DamagedGzipIsRefused) {
  Bytes packed = gzip(two_images());
  packed[packed.size() - 6] ^= 1;  // in the stored CRC-32
  EXPECT_THAT(refusal(packed), HasSubstr("the gzip stream is broken"));
}

TEST(Idx, D1WrongMagicTypeOrRankIsRefused) {
  EXPECT_THAT(refusal(header(0x12345678, {1, 1, 1})),
              HasSubstr("magic number is 0x12345678, expected 0x00000803"));
  EXPECT_THAT(refusal(header(0xD03, {1, 1, 1})), HasSubstr("0x00000d03"));  // floats
  EXPECT_THAT(refusal(two_images(), 1), HasSubstr("expected 0x00000801"));
}

TEST(Idx, D1SizesThatOverflowOrAreHugeAreRefused) {
  EXPECT_THAT(refusal(header(0x803, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF})),
              HasSubstr("more than the 4 GiB allowed"));
  EXPECT_THAT(refusal(header(0x803, {0x80000000, 0x80000000, 4})),
              HasSubstr("more than the 4 GiB"));
  EXPECT_THAT(refusal(header(0x803, {0, 28, 28})), HasSubstr("which holds nothing"));
}

TEST(Idx, D1ARefusalOfAWholeSetDoesNotReadItAgainAndAgain) {
  // MNIST's training images but for the last byte: a twentieth of a second. Of processor time, so
  // that it counts on a busy machine, too, and far above what a slow one needs.
  Bytes bytes = header(0x803, {60000, 28, 28});
  bytes.resize(16 + 60000 * 28 * 28 - 1);
  const std::clock_t before = std::clock();
  EXPECT_THAT(refusal(bytes), HasSubstr("it is cut off"));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 1);
}

TEST(Idx, D3HeaderAloneNeverAllocates) {
  // 60,000 x 60,000 pass the cap; with 64 MiB more of address space an allocation of them fails.
  Bytes bytes = header(0x803, {1, 60000, 60000});
  bytes.resize(1000);
  const MemoryLimit limit(64U << 20);
  if (MemoryLimit::kWorks) EXPECT_THROW(std::vector<std::uint8_t>(3'600'000'000U), std::bad_alloc);
  EXPECT_THAT(refusal(bytes), HasSubstr("found 1000: it is cut off"));
}

TEST(Idx, Y6WhatIsNoRegularFileIsRefusedAtOnce) {
  const Scratch scratch;
  EXPECT_THROW(read_idx(scratch.path() / "absent", 1), UsageError);
  EXPECT_THROW(read_idx(scratch.path(), 1), UsageError);
  EXPECT_THROW(read_idx("/dev/zero", 1), UsageError);
  ASSERT_EQ(mkfifo((scratch.path() / "fifo").c_str(), 0600), 0);
  EXPECT_THROW(read_idx(scratch.path() / "fifo", 1), UsageError);
  scratch.write("empty", "");
  EXPECT_THROW(read_idx(scratch.path() / "empty", 1), UsageError);
}

TEST(IdxPair, D2LabelTooLargeIsNamedWithItsIndex) {
  const IdxArray images{.shape = {3, 1, 1}, .bytes = {0, 0, 0}};
  try {
    check_idx_pair(images, {.shape = {3}, .bytes = {9, 0, 10}}, 10, "images", "labels");
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "labels: label 10 at index 2, expected 0 to 9.");
  }
  check_idx_pair(images, {.shape = {3}, .bytes = {9, 0, 1}}, 10, "images", "labels");
}

TEST(IdxPair, DifferentCountsNameBothFiles) {
  try {
    check_idx_pair(
        {.shape = {1, 1, 1}, .bytes = {0}}, {.shape = {2}, .bytes = {0, 0}}, 10, "a.idx", "b.idx");
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("a.idx holds 1 images"), HasSubstr("b.idx holds 2")));
  }
}

}  // namespace
}  // namespace ddp::worker
