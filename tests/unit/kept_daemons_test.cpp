#include "launcher/plan/start/kept_daemons.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(KeptDaemons, APatternIsSearchedInTheCommandLine) {
  const KeptDaemons kept({"tensorboard.*--port 6006", "^/usr/bin/wandb"});
  EXPECT_TRUE(kept.has("/usr/bin/python3 /usr/bin/tensorboard --logdir runs --port 6006"));
  EXPECT_TRUE(kept.has("/usr/bin/wandb-core"));
  EXPECT_FALSE(kept.has("/usr/bin/python3 /usr/bin/tensorboard --port 6007"));
  EXPECT_FALSE(kept.has("python3 /usr/bin/wandb"));
  EXPECT_FALSE(KeptDaemons({}).has("anything"));
}

TEST(KeptDaemons, ATextThatIsNotAnExpressionHasAProblem) {
  EXPECT_EQ(KeptDaemons::problem_of("a (b|c)+ [d-f]"), std::nullopt);
  EXPECT_NE(KeptDaemons::problem_of("a (b"), std::nullopt);
}

TEST(KeptDaemons, ALineNamesTheFirstAndCountsAll) {
  const std::vector<LeftoverProcess> one{{17, "/bin/sh -c \x1b[2Jecho"}};
  EXPECT_EQ(describe_killed(1, one),
            "rank 1 left a process behind: pid 17 (/bin/sh -c echo); it is killed. To leave one "
            "running, name it in --keep-daemons.");
  const std::vector<LeftoverProcess> many{{1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}};
  EXPECT_EQ(describe_kept(std::nullopt, many),
            "a rank left 4 processes behind: pid 1 (a), pid 2 (b), pid 3 (c), ...; they are left "
            "running (--keep-daemons)");
}

}  // namespace
}  // namespace ddp::launcher
