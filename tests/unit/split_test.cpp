#include "common/text/split.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

using Parts = std::vector<std::string_view>;

TEST(Split, EmptyPartsAreParts) {
  EXPECT_EQ(split("a,,b", ','), (Parts{"a", "", "b"}));
  EXPECT_EQ(split("a,", ','), (Parts{"a", ""}));
  EXPECT_EQ(split("", ','), (Parts{""}));
}

TEST(Split, WordsAreTrimmedAndNotEmpty) {
  EXPECT_EQ(split_words(" a b ,, c,\t"), (std::vector<std::string>{"a b", "c"}));
  EXPECT_TRUE(split_words(" ").empty());
}

TEST(Split, TrimTakesBlanksAround) {
  EXPECT_EQ(trim(" \ta b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(""), "");
}

}  // namespace
}  // namespace ddp
