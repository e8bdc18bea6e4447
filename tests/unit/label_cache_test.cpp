// The cache of labels: what was put in comes out, and nothing else is believed.
#include "worker/data/sets/label_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <span>

#include "worker/data/format/yolo_labels.h"
#include "worker/plan/digest.h"

namespace ddp::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kHeader = 46;  // bytes

CachedFolder folder() {
  const FileStamp stamp{.size = 7, .modified = 1'700'000'000'123'456'789, .changed = 5, .inode = 9};
  return {{.name = "a.txt", .stamp = stamp, .boxes = {{3, {0, 0, 1, 1}}, {0, {.1F, .2F, .3F, 1}}}},
          {.name = "b/\xC3\xA4.txt", .stamp = {}, .problem = "line 2: \"cat\" is not the number"},
          {.name = "c.txt", .boxes = {{kMaxClasses - 1, {0.5F, 0.5F, 0.75F, 0.75F}}}}};
}

/// Why it cannot be used.
std::string label_problem(const std::string& bytes) {
  CachedFolder into = folder();
  const std::string problem = decode_label_cache(bytes, into);
  EXPECT_EQ(problem.empty(), !into.empty()) << "what cannot be used leaves nothing";
  return problem;
}

/// With the checksum that belongs to it: what a hostile writer can do.
std::string problem_behind_checksum(const std::string& numbers) {
  return label_problem("ddp-labels 1 " + digest(std::as_bytes(std::span(numbers))) + "\n" +
                       numbers);
}

std::string problem_with(const std::function<void(CachedFolder&)>& change) {
  CachedFolder changed = folder();
  change(changed);
  return label_problem(encode_label_cache(changed));
}

TEST(LabelCache, FoldersRoundTrip) {
  CachedFolder read;
  EXPECT_EQ(decode_label_cache(encode_label_cache(folder()), read), "");
  EXPECT_EQ(read, folder());
  EXPECT_EQ(decode_label_cache(encode_label_cache({}), read), "");
  EXPECT_THAT(read, IsEmpty());
}

TEST(LabelCache, DamageOfAnyBitIsSeen) {
  const std::string whole = encode_label_cache(folder());
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    ASSERT_NE(label_problem(damaged), "") << "bit " << bit;
  }
}

TEST(LabelCache, AnyCutIsSeen) {
  const std::string whole = encode_label_cache(folder());
  for (std::size_t size = 0; size < whole.size(); ++size)
    ASSERT_NE(label_problem(whole.substr(0, size)), "") << size << " bytes";
  EXPECT_THAT(label_problem(whole + "x"), HasSubstr("checksum"));
}

TEST(LabelCache, AnyCutWithARightChecksumIsSeen) {
  const std::string numbers = encode_label_cache(folder()).substr(kHeader);
  ASSERT_EQ(problem_behind_checksum(numbers), "");
  for (std::size_t size = 0; size < numbers.size(); ++size)
    ASSERT_NE(problem_behind_checksum(numbers.substr(0, size)), "") << size << " bytes";
  EXPECT_THAT(problem_behind_checksum(numbers + "x"), HasSubstr("no label file says"));
}

TEST(LabelCache, OtherFilesAndOtherVersionsAreNamed) {
  EXPECT_EQ(label_problem(""), "it is not a cache of labels");
  EXPECT_EQ(label_problem("\x80\x04\x95 a pickle"), "it is not a cache of labels");
  std::string older = encode_label_cache(folder());
  older[11] = '0';
  EXPECT_EQ(label_problem(older), "it is of another version");
}

TEST(LabelCache, CountsThatNoFileHoldsTakeNoMemory) {
  const std::string numbers = encode_label_cache(folder()).substr(kHeader);
  constexpr std::size_t kFiles = 0;
  constexpr std::size_t kName = 8;                      // behind the number of files
  constexpr std::size_t kProblem = kName + 4 + 5 + 32;  // behind "a.txt" and its stamp
  constexpr std::size_t kBoxes = kProblem + 4;          // behind no problem
  for (const std::size_t place : {kFiles, kFiles + 4, kName, kProblem, kBoxes}) {
    for (const std::uint32_t count : {0xFFFFFFFFU, 0x7FFFFFFFU, 1000U}) {
      std::string hostile = numbers;
      std::memcpy(&hostile[place], &count, sizeof count);
      EXPECT_THAT(problem_behind_checksum(hostile), HasSubstr("no label file says"))
          << count << " at " << place;
    }
  }
}

TEST(LabelCache, ImpossibleLabelsBoxesAndProblemsAreRefused) {
  EXPECT_EQ(problem_with([](CachedFolder&) {}), "");
  for (const int label : {-1, kMaxClasses, INT32_MAX, INT32_MIN}) {
    EXPECT_NE(problem_with([&](CachedFolder& it) { it[0].boxes[0].label = label; }), "") << label;
  }
  const Box wrong[] = {{-.1F, 0, 1, 1},
                       {0, -.1F, 1, 1},
                       {0, 0, 1.1F, 1},
                       {0, 0, 1, 1.1F},
                       {.5F, 0, .5F, 1},
                       {.6F, 0, .5F, 1},
                       {0, .6F, 1, .5F},
                       {NAN, 0, 1, 1},
                       {0, NAN, 1, 1},
                       {0, 0, NAN, 1},
                       {0, 0, 1, NAN},
                       {-INFINITY, 0, 1, 1},
                       {0, 0, INFINITY, 1},
                       {.6F, .6F, .5F, .5F}};
  for (const Box& box : wrong) {
    EXPECT_NE(problem_with([&](CachedFolder& it) { it[0].boxes[1].box = box; }), "")
        << box.left << " " << box.top << " " << box.right << " " << box.bottom;
  }
  for (const std::string text : {"all is well", "line 1: \x1B[2J", "line 1: a\nline 2: b"})
    EXPECT_NE(problem_with([&](CachedFolder& it) { it[1].problem = text; }), "") << text;
  EXPECT_NE(problem_with([](auto& it) { it[1].problem = "line " + std::string(2000, '1'); }), "");
}

TEST(LabelCache, EachNameIsThereOnceAndInOrder) {
  EXPECT_NE(problem_with([](CachedFolder& it) { it[0].name.clear(); }), "");
  EXPECT_NE(problem_with([](CachedFolder& it) { it[1].name = it[0].name; }), "");
  EXPECT_NE(problem_with([](CachedFolder& it) { std::swap(it[0], it[1]); }), "");
}

}  // namespace
}  // namespace ddp::worker
