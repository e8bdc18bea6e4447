#include "launcher/plan/rerun.h"

#include <gmock/gmock.h>

namespace ddp::launcher {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

JobSpec spec_of(const std::vector<std::string>& words) {
  const Options options = parse_options(words, {});
  JobSpec spec =
      make_job_spec(options, resolve_job(nullptr, layer_overrides(options)), NodeFacts{4, {}}, {});
  spec.executable = "/usr/bin/" + spec.arguments.front();
  return spec;
}

TEST(Rerun, AWordIsQuotedOnlyWhereAShellNeedsIt) {
  EXPECT_EQ(quote("a/b.py"), "a/b.py");
  EXPECT_EQ(quote(""), "''");
  EXPECT_EQ(quote("it's $x"), "'it'\\''s $x'");
  EXPECT_EQ(quote("a\n'\\\x1b"), "$'a\\012\\'\\\\\\033'");
}

TEST(Rerun, ARankIsStartedAloneInAWorldOfOneWithItsOwnArguments) {
  Placement placement;
  placement.rank = 3;
  placement.local_rank = 1;
  placement.world_size = 4;
  placement.local_world_size = 2;
  const std::string text =
      rerun_command(spec_of({"--nproc-per-node=2", "train.py", "--rank=${local_rank}", "a b"}),
                    placement,
                    "/w d");
  EXPECT_THAT(text,
              AllOf(StartsWith("cd '/w d' && env "),
                    HasSubstr(" RANK=0"),
                    HasSubstr(" WORLD_SIZE=1"),
                    HasSubstr(" LOCAL_RANK=1"),
                    HasSubstr(" MASTER_ADDR=127.0.0.1"),
                    Not(HasSubstr("TORCHELASTIC_")),
                    EndsWith(" /usr/bin/python3 -u train.py --rank=1 'a b'")));
}

}  // namespace
}  // namespace ddp::launcher
