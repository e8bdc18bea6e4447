#include "launcher/plan/output/line_folder.h"
#include "common/text/join_words.h"

#include <gmock/gmock.h>

#include <random>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr LineFolder::Time kFolderBegin{};

std::vector<std::string> texts(const std::vector<LineFolder::Line>& lines) {
  std::vector<std::string> texts;
  for (const auto& line : lines)
    texts.push_back(join_ranges(line.ranks) + " " + line.text);
  return texts;
}

TEST(LineFolder, EqualLinesOfSeveralRanksAreOne) {
  LineFolder folder(4);
  for (const int rank : {2, 0, 1})
    folder.add(rank, "epoch 1", kFolderBegin);
  EXPECT_THAT(texts(folder.take_due(kFolderBegin + 99ms)), IsEmpty());
  EXPECT_THAT(texts(folder.take_due(kFolderBegin + 100ms)), ElementsAre("0-2 epoch 1"));
  EXPECT_TRUE(folder.is_empty());
}

TEST(LineFolder, ALineThatAllRanksHavePrintedWaitsNoLonger) {
  LineFolder folder(2);
  folder.add(0, "a", kFolderBegin);
  folder.add(1, "a", kFolderBegin);
  EXPECT_THAT(texts(folder.take_due(kFolderBegin)), ElementsAre("0-1 a"));
}

TEST(LineFolder, EachRanksOrderStays) {
  LineFolder folder(2);
  folder.add(0, "a", kFolderBegin);
  folder.add(0, "b", kFolderBegin);
  folder.add(1, "b", kFolderBegin);
  folder.add(1, "a", kFolderBegin);  // not the first a: rank 1 has said b before
  EXPECT_THAT(texts(folder.take_all()), ElementsAre("0 a", "0-1 b", "1 a"));
}

TEST(LineFolder, ALineThatARankRepeatsIsShownAsOften) {
  LineFolder folder(2);
  for (const int rank : {0, 0, 1, 1})
    folder.add(rank, "same", kFolderBegin);
  EXPECT_THAT(texts(folder.take_all()), ElementsAre("0-1 same", "0-1 same"));
}

TEST(LineFolder, MemoryIsBounded) {
  LineFolder folder(2);
  const std::string text(1000, 'x');
  std::size_t shown = 0;
  for (int i = 0; i < 10000; ++i) {
    folder.add(0, text + std::to_string(i), kFolderBegin);
    shown += folder.take_due(kFolderBegin).size();
  }
  EXPECT_GE(shown, 10000 - LineFolder::kLimit / 1000);
  EXPECT_EQ(shown + folder.take_all().size(), 10000U);
}

TEST(LineFolder, NoLineIsLostOrOutOfOrderWhateverComes) {
  std::mt19937 random(1);
  LineFolder folder(5);
  std::map<int, std::vector<std::string>> said;
  std::map<int, std::vector<std::string>> shown;
  const auto take = [&](const std::vector<LineFolder::Line>& lines) {
    for (const auto& line : lines)
      for (const int rank : line.ranks)
        shown[rank].push_back(line.text);
  };
  for (int i = 0; i < 5000; ++i) {
    const int rank = static_cast<int>(random() % 5);
    const std::string text(1, static_cast<char>('a' + random() % 3));
    folder.add(rank, text, kFolderBegin + std::chrono::milliseconds(i));
    said[rank].push_back(text);
    take(folder.take_due(kFolderBegin + std::chrono::milliseconds(i)));
  }
  take(folder.take_all());
  EXPECT_EQ(said, shown);
}

TEST(FormatRanks, WritesRanges) {
  EXPECT_EQ(join_ranges({3}), "3");
  EXPECT_EQ(join_ranges({0, 1, 2, 3, 5, 7, 8}), "0-3,5,7-8");
}

}  // namespace
}  // namespace ddp::launcher
