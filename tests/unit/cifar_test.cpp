#include "worker/data/format/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "common/error.h"
#include "tests/unit/memory_limit.h"
#include "tests/unit/packing.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kImage = 3072;

/// Records with the fine labels 0, 1, 2 ..., each filled with 100 + its label.
Bytes records(int count, bool is_cifar100 = false) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) {
    if (is_cifar100) bytes.push_back(19);
    bytes.push_back(static_cast<std::uint8_t>(i));
    bytes.insert(bytes.end(), kImage, static_cast<std::uint8_t>(100 + i));
  }
  return bytes;
}

std::string refusal(const Bytes& bytes, std::int64_t count, const CifarForm& form = kCifar10) {
  try {
    parse_cifar(bytes, "input", form, count);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Cifar, LabelsAndPlanesAreTakenApart) {
  Bytes bytes = records(2);
  bytes[1] = 1;         // the first of red
  bytes[1 + 1024] = 2;  // of green
  bytes[1 + 2048] = 3;  // of blue
  bytes[1 + 3071] = 4;  // the last of all
  const CifarRecords read = parse_cifar(bytes, "input", kCifar10, 2);
  EXPECT_THAT(read.labels, ElementsAre(0, 1));
  ASSERT_EQ(read.pixels.size(), 2 * kImage);
  EXPECT_EQ(read.pixels[0], 1);
  EXPECT_EQ(read.pixels[1024], 2);
  EXPECT_EQ(read.pixels[2048], 3);
  EXPECT_EQ(read.pixels[3071], 4);
  EXPECT_EQ(read.pixels[3072], 101);
}

TEST(Cifar, Cifar100UsesTheFineLabel) {
  const CifarRecords read = parse_cifar(records(3, true), "input", kCifar100, 3);
  EXPECT_THAT(read.labels, ElementsAre(0, 1, 2));
  EXPECT_EQ(read.pixels, parse_cifar(records(3), "input", kCifar10, 3).pixels);
}

TEST(Cifar, PlainAndPackedAreTheSame) {
  const Bytes bytes = records(3);
  const CifarRecords plain = parse_cifar(bytes, "input", kCifar10, 3);
  EXPECT_EQ(parse_cifar(gzip(bytes), "input", kCifar10, 3), plain);
  EXPECT_EQ(parse_cifar(xz(bytes), "input", kCifar10, 3), plain);
}

TEST(Cifar, FilesAreAppendedInTheirOrder) {
  Bytes bytes;  // more than are read at once
  for (int i = 0; i < 60; ++i) {
    const Bytes ten = records(10);
    bytes.insert(bytes.end(), ten.begin(), ten.end());
  }
  const Scratch scratch;
  scratch.write("a", std::string(bytes.begin(), bytes.end()));
  const Bytes two = records(2);
  scratch.write("b", std::string(two.begin(), two.end()));
  CifarRecords into;
  read_cifar(scratch.path() / "a", kCifar10, 600, into);
  read_cifar(scratch.path() / "b", kCifar10, 2, into);
  ASSERT_EQ(into.labels.size(), 602U);
  ASSERT_EQ(into.pixels.size(), 602 * kImage);
  for (std::size_t i = 0; i < 602; ++i) {
    EXPECT_EQ(into.labels[i], (i < 600 ? i : i - 600) % 10) << i;
    EXPECT_EQ(into.pixels[i * kImage], into.labels[i] + 100) << i;
  }
}

TEST(Cifar, D1ACutFileSaysExpectedAndFoundSize) {
  Bytes bytes = records(3);
  bytes.pop_back();
  const std::string message =
      "cannot read input as CIFAR-10: expected 9219 bytes (3 records of 3073), found 9218: it is "
      "cut off. Get the file again";
  EXPECT_EQ(refusal(bytes, 3), message);
  EXPECT_EQ(refusal(gzip(bytes), 3), message);
  EXPECT_EQ(refusal(xz(bytes), 3), message);
  EXPECT_THAT(refusal(records(2), 3), HasSubstr("found 6146: it is cut off"));
  EXPECT_THAT(refusal({}, 3), HasSubstr("found 0: it is cut off"));
}

TEST(Cifar, D1TrailingBytesAreRefused) {
  Bytes bytes = records(3);
  bytes.push_back(0);
  for (const Bytes& form : {bytes, gzip(bytes), xz(bytes)})
    EXPECT_THAT(refusal(form, 3), HasSubstr("(3 records of 3073), found at least 1 bytes more"));
}

TEST(Cifar, D1RecordsOfTheOtherSetAreRefused) {
  EXPECT_THAT(refusal(records(3, true), 3), HasSubstr("label 19 at record 0, expected 0 to 9"));
  EXPECT_THAT(refusal(records(3), 3, kCifar100), HasSubstr("cannot read input as CIFAR-100: "));
}

TEST(Cifar, D2ALabelThatNoClassHasIsNamedWithItsRecord) {
  EXPECT_EQ(refusal(records(11), 11),
            "cannot read input as CIFAR-10: label 10 at record 10, expected 0 to 9. It is damaged, "
            "or of another set. Get the file again");
  Bytes bytes = records(3, true);
  bytes[2 * 3074 + 1] = 100;
  EXPECT_THAT(refusal(bytes, 3, kCifar100), HasSubstr(": label 100 at record 2, expected 0 to 99"));
  bytes[3074] = 20;
  EXPECT_THAT(refusal(bytes, 3, kCifar100),
              HasSubstr(": coarse label 20 at record 1, expected 0 to 19"));
}

TEST(Cifar, D3MemoryGrowsWithTheBytesThatArrive) {
  // Three records of a million: with 64 MiB more of address space the million do not fit.
  const Bytes bytes = records(3);
  std::string message;
  {
    const MemoryLimit limit(64U << 20);
    message = refusal(bytes, 1'000'000);
    if (MemoryLimit::kWorks) {
      EXPECT_THROW(std::vector<std::uint8_t>(3'000'000'000U), std::bad_alloc);
    }
  }
  EXPECT_THAT(message, HasSubstr("found 9219: it is cut off"));
}

}  // namespace
}  // namespace ddp::worker
