#include "launcher/plan/start/rerun.h"
#include "common/job/resolve_job.h"

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

TEST(Rerun, ARankIsStartedAloneInAWorldOfOneWithItsOwnArguments) {
  Placement placement;
  placement.rank = 3;
  placement.local_rank = 1;
  placement.world_size = 4;
  placement.local_world_size = 2;
  const std::string text =
      rerun_command(spec_of({"--nproc-per-node=2", "train.py", "--rank=${local_rank}", "a b"}),
                    placement,
                    RerunFacts{"/w d", 4711, {}});
  EXPECT_THAT(text,
              AllOf(StartsWith("cd '/w d' && env "),
                    HasSubstr(" RANK=0"),
                    HasSubstr(" WORLD_SIZE=1"),
                    HasSubstr(" LOCAL_RANK=1"),
                    HasSubstr(" MASTER_ADDR=127.0.0.1"),
                    HasSubstr(" MASTER_PORT=4711 "),
                    Not(HasSubstr("TORCHELASTIC_")),
                    HasSubstr(" /usr/bin/python3 -u train.py --rank=1 'a b'  # "),
                    EndsWith("the data, seeds and rates of rank 3 of 4 are not repeated")));
}

TEST(Rerun, ValuesOfLaunchEnvAreNotTold) {
  const JobSpec spec = spec_of({"job.yaml", "data.batch_per_rank=8", "launch.env.KEY=s3cret"});
  const std::string text = rerun_command(spec, Placement(), RerunFacts{"/w", 1, {}});
  EXPECT_THAT(text, AllOf(HasSubstr(" 'KEY=***'"), Not(HasSubstr("s3cret"))));
}

TEST(Rerun, OurOwnWorkerPlaysTheRankFromTheNewestCheckpoint) {
  JobSpec spec = spec_of({"--nproc-per-node=2", "train.py"});
  spec.takes_job_file = true;
  Placement placement;
  placement.rank = 3;
  placement.world_size = 8;
  EXPECT_THAT(rerun_command(spec, placement, RerunFacts{"/w", 1, {}}),
              AllOf(HasSubstr(" RANK=3 "), EndsWith(" train.py --as-rank 3/8")));
  EXPECT_THAT(rerun_command(spec, placement, RerunFacts{"/w", 1, "/r/checkpoints/step-7"}),
              EndsWith(" train.py checkpoint.resume=/r/checkpoints/step-7 --as-rank 3/8"));
  placement = Placement();
  EXPECT_THAT(rerun_command(spec, placement, RerunFacts{"/w", 1, {}}), EndsWith(" train.py"));
}

}  // namespace
}  // namespace ddp::launcher
