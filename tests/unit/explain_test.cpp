#include "launcher/plan/command_line/explain.h"
#include "common/job/job_keys.h"
#include "common/job/resolve_job.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "common/error.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

JobValues values_of(const std::vector<std::string>& words) {
  return merge_job(nullptr, layer_overrides(parse_options(words, {})));
}

TEST(Explain, TellsTypeDefaultValueAndOrigin) {
  EXPECT_EQ(explain("launch.grace", values_of({"--grace=5s", "p"})),
            "launch.grace: time from SIGTERM to SIGKILL\n"
            "  type     duration with a unit, as 30s or 10min\n"
            "  default  30s\n"
            "  value    5s\n"
            "  from     --grace\n"
            "  flag     --grace, --shutdown-timeout\n"
            "  variable PET_SHUTDOWN_TIMEOUT, TORCH_ELASTIC_SHUTDOWN_TIMEOUT\n"
            "  nodes    may differ between nodes and runs of a job\n");
}

TEST(Explain, ASectionIsAllItsKeys) {
  EXPECT_THAT(
      explain("train", values_of({"p"})),
      AllOf(
          HasSubstr("train.epochs: "), HasSubstr("train.log_every: "), Not(HasSubstr("launch."))));
}

TEST(Explain, WithoutAProgramAKeyHasItsDefault) {
  EXPECT_THAT(explain("checkpoint.resume", values_of({"--explain=checkpoint.resume"})),
              HasSubstr("  default  auto\n  value    auto\n  from     default\n"));
}

TEST(Explain, DefaultValueAndOriginAgree) {
  // What another key lacks does not matter: here neither data nor a batch is given.
  const JobValues bare = values_of({"--explain=data", "job.yaml"});
  EXPECT_THAT(explain("data.root", bare),
              HasSubstr("  default  null\n  value    null\n  from     default\n"));
  EXPECT_THAT(explain("data.batch_per_rank", values_of({"--explain=data.batch_per_rank"})),
              HasSubstr("  default  null\n  value    null\n  from     default\n"));
  const JobValues program = values_of({"--explain=name", "dir/train.py"});
  EXPECT_THAT(explain("name", program),
              HasSubstr("  value    train\n  from     the program, which has no job file\n"));
  EXPECT_THAT(explain("checkpoint.resume", program),
              HasSubstr("  default  auto\n  value    never\n  from     the program, which"));
  for (const JobKey& key : job_keys()) {
    const std::string text = explain(std::string(key.path), bare);
    const std::size_t begin = text.find("  default  ") + 11;
    const std::string usual = text.substr(begin, text.find('\n', begin) - begin);
    EXPECT_THAT(text, HasSubstr("\n  value    " + usual + "\n  from     default\n"));
  }
}

// A key whose default is null does something all the same.
TEST(Explain, TheEffectOfALaunchKeySaysWhatItsWordsMean) {
  const std::string workers = explain("launch.nproc_per_node", values_of({"p"}));
  for (const char* const word : {"cpu: one per CPU", "gpu: one per GPU", "auto: GPUs if"})
    EXPECT_THAT(workers, HasSubstr(word));
  static constexpr std::string_view kSwitchedOff[] = {
      "launch.event_log_handler", "launch.logs_specs", "launch.program"};
  for (const JobKey& key : job_keys()) {
    const bool is_told = key.default_value != "null" || !key.path.starts_with("launch.") ||
                         std::ranges::find(kSwitchedOff, key.path) != std::end(kSwitchedOff);
    if (!is_told) {
      EXPECT_THAT(std::string(key.help), HasSubstr("null: ")) << key.path;
    }
  }
}

TEST(Explain, AnUnknownKeyIsAnErrorWithANearOne) {
  try {
    (void)explain("train.epoch", values_of({"p"}));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean \"train.epochs\"?"));
  }
}

}  // namespace
}  // namespace ddp::launcher
