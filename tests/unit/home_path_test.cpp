#include "common/node/home_path.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace ddp {
namespace {

TEST(HomePath, ATildeThatStandsForTheHomeIsReplaced) {
  ASSERT_EQ(::setenv("HOME", "/homes/anna", 1), 0);
  EXPECT_EQ(expand_home("~"), "/homes/anna");
  EXPECT_EQ(expand_home("~/data/mnist"), "/homes/anna/data/mnist");
  for (const char* const path : {"", "data", "/a/~/b", "~bob/data", "a~"})
    EXPECT_EQ(expand_home(path), path);
}

TEST(HomePath, WithoutHOMETheSystemIsAsked) {
  ASSERT_EQ(::unsetenv("HOME"), 0);
  EXPECT_TRUE(expand_home("~/data").starts_with("/")) << expand_home("~/data");
}

}  // namespace
}  // namespace ddp
