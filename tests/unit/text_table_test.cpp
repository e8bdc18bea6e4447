#include "common/text/text_table.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(text_table({{"node", "cpus"}, {"0", "128"}, {"10", ""}}),
            "node  cpus\n"
            "0     128\n"
            "10\n");
}

TEST(TextTable, CharactersCountNotBytes) {
  EXPECT_EQ(text_table({{"µs", "x"}, {"abc", "y"}}), "µs   x\nabc  y\n");
}

TEST(TextTable, RowsMayBeShortAndThereMayBeNone) {
  EXPECT_EQ(text_table({}), "");
  EXPECT_EQ(text_table({{"a"}, {"b", "c"}}), "a\nb  c\n");
}

}  // namespace
}  // namespace ddp
