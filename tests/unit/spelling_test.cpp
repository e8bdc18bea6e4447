#include "common/text/spelling.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace ddp {
namespace {

const std::vector<std::string_view> kWords{"momentum", "lr"};

TEST(Spelling, ASlipIsUnderstood) {
  EXPECT_EQ(did_you_mean("momentun", kWords), "momentum");
  EXPECT_EQ(did_you_mean("momnetum", kWords), "momentum") << "neighbours swapped";
  EXPECT_EQ(did_you_mean("rl", kWords), "lr");
}

TEST(Spelling, FarWordsAreNotProposed) {
  EXPECT_FALSE(did_you_mean("something", kWords).has_value());
  EXPECT_FALSE(did_you_mean("", kWords).has_value());
}

}  // namespace
}  // namespace ddp
