#include "launcher/plan/explain.h"
#include "common/resolve_job.h"

#include <gmock/gmock.h>

#include "common/error.h"
#include "launcher/plan/job_spec.h"

namespace ddp::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

JobValues values_of(const std::vector<std::string>& words) {
  return resolve_job(nullptr, layer_overrides(parse_options(words, {})));
}

TEST(Explain, TellsTypeDefaultValueAndOrigin) {
  EXPECT_EQ(explain("launch.grace", values_of({"--grace=5s", "p"})),
            "launch.grace: time from SIGTERM to SIGKILL\n"
            "  type     duration with a unit, as 30s or 10min\n"
            "  default  30s\n"
            "  value    5s\n"
            "  from     --grace\n"
            "  flag     --grace, --shutdown-timeout\n"
            "  variable TORCH_ELASTIC_SHUTDOWN_TIMEOUT\n"
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
