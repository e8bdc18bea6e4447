#include "common/progress/line_part.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

const std::vector<LinePart> kParts{{2, "epoch 3/10"},
                                   {0, "step 1,234/5,000 (24%)"},
                                   {1, "loss 0.0862"},
                                   {3, "9,214 images/s"},
                                   {3, "slowest rank 2"}};

TEST(LinePart, TheLeastImportantIsLeftOutFirst) {
  struct Row {
    std::size_t width;
    std::string text;
  };
  const std::vector<Row> rows{
      {200, "epoch 3/10, step 1,234/5,000 (24%), loss 0.0862, 9,214 images/s, slowest rank 2"},
      {79, "epoch 3/10, step 1,234/5,000 (24%), loss 0.0862, 9,214 images/s, slowest rank 2"},
      {78, "epoch 3/10, step 1,234/5,000 (24%), loss 0.0862, 9,214 images/s"},
      {60, "epoch 3/10, step 1,234/5,000 (24%), loss 0.0862"},
      {46, "step 1,234/5,000 (24%), loss 0.0862"},
      {30, "step 1,234/5,000 (24%)"},
      {5, "step "},
  };
  for (const Row& row : rows)
    EXPECT_EQ(fit(kParts, row.width), row.text) << row.width;
  EXPECT_EQ(fit({}, 10), "");
}

TEST(LinePart, AShortPartHasTheRoomOfALongOneThatHasNone) {
  const std::vector<LinePart> parts{
      {0, "step 12"}, {2, "slowest rank 5, others wait 40%"}, {3, "elapsed 0:12"}};
  EXPECT_EQ(fit(parts, 21), "step 12, elapsed 0:12");
  EXPECT_EQ(fit(parts, 40), "step 12, slowest rank 5, others wait 40%");
}

TEST(LinePart, CharactersAreCountedNotBytes) {
  const std::vector<LinePart> parts{{0, "äöü"}, {1, "x"}};
  EXPECT_EQ(fit(parts, 6), "äöü, x");
  EXPECT_EQ(fit(parts, 5), "äöü");
}

}  // namespace
}  // namespace ddp::launcher
