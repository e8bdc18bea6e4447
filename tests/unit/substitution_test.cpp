#include "launcher/plan/start/substitution.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(Substitution, LocalRankInBothForms) {
  EXPECT_EQ(substitute("--gpu=${local_rank}", 3), "--gpu=3");
  EXPECT_EQ(substitute("$local_rank", 12), "12");
  EXPECT_EQ(substitute("a$local_rank/b${local_rank}c", 1), "a1/b1c");
}

TEST(Substitution, ADoubledDollarIsOne) {
  EXPECT_EQ(substitute("$$", 1), "$");
  EXPECT_EQ(substitute("$$local_rank", 1), "$local_rank");
}

TEST(Substitution, OtherNamesStay) {
  for (const char* const text :
       {"$HOME", "${rank}", "$local_ranks", "${local_rank", "$", "plain", ""}) {
    EXPECT_EQ(substitute(text, 1), text);
  }
}

}  // namespace
}  // namespace ddp::launcher
