#include "launcher/plan/start/argument_template.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(ArgumentTemplate, LocalRankInBothForms) {
  EXPECT_EQ(fill_template("--gpu=${local_rank}", 3), "--gpu=3");
  EXPECT_EQ(fill_template("$local_rank", 12), "12");
  EXPECT_EQ(fill_template("a$local_rank/b${local_rank}c", 1), "a1/b1c");
}

TEST(ArgumentTemplate, ADoubledDollarIsOne) {
  EXPECT_EQ(fill_template("$$", 1), "$");
  EXPECT_EQ(fill_template("$$local_rank", 1), "$local_rank");
}

TEST(ArgumentTemplate, OtherNamesStay) {
  for (const char* const text :
       {"$HOME", "${rank}", "$local_ranks", "${local_rank", "$", "plain", ""}) {
    EXPECT_EQ(fill_template(text, 1), text);
  }
}

}  // namespace
}  // namespace ddp::launcher
