#include "launcher/plan/output/line_splitter.h"

#include <gmock/gmock.h>

#include <vector>

namespace ddp::launcher {
namespace {

using testing::ElementsAre;

class SplitLines {
 public:
  void feed(std::string_view bytes) {
    splitter_.feed(bytes, [this](std::string_view line) { lines.emplace_back(line); });
  }
  void finish() {
    splitter_.finish([this](std::string_view line) { lines.emplace_back(line); });
  }
  std::vector<std::string> lines;

 private:
  LineSplitter splitter_;
};

TEST(LineSplitter, LinesAreWholeHoweverTheBytesCome) {
  const std::string text = "one\ntwo\n\nthree\n";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    SplitLines lines;
    for (std::size_t at = 0; at < text.size(); at += size)
      lines.feed(text.substr(at, size));
    lines.finish();
    EXPECT_THAT(lines.lines, ElementsAre("one", "two", "", "three")) << size;
  }
}

TEST(LineSplitter, TheLastLineWithoutNewlineIsMarked) {
  SplitLines lines;
  lines.feed("a\nb");
  EXPECT_THAT(lines.lines, ElementsAre("a"));
  lines.finish();
  EXPECT_THAT(lines.lines, ElementsAre("a", "b [no newline]"));
}

TEST(LineSplitter, LongLinesComeInPieces) {
  const std::size_t limit = LineSplitter::kLimit;
  for (const std::size_t size : {limit - 1, limit, limit + 1, 2 * limit, 3 * limit + 5}) {
    for (const std::size_t step : {std::size_t{1000}, limit, std::size_t{300000}}) {
      const std::string text = std::string(size, 'x') + "\nnext\n";
      SplitLines lines;
      for (std::size_t at = 0; at < text.size(); at += step)
        lines.feed(text.substr(at, step));
      ASSERT_EQ(lines.lines.back(), "next");
      std::string joined;
      for (std::size_t i = 0; i + 1 < lines.lines.size(); ++i) {
        EXPECT_LE(lines.lines[i].size(), limit);
        joined += lines.lines[i];
      }
      EXPECT_EQ(joined, std::string(size, 'x')) << size << " in steps of " << step;
    }
  }
}

}  // namespace
}  // namespace ddp::launcher
