#include "worker/fetch/run_status.h"

#include <gmock/gmock.h>

#include <string>

namespace ddp::worker {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kJob = R"({"kind":"job","name":"mnist","step":0,"steps":1000})";
const std::chrono::system_clock::time_point kNoon(seconds(1'764'417'600));

RunStatus::Time at(int second) {
  return RunStatus::Time(seconds(second));
}

std::string body_of(const RunStatus& status) {
  return status.body(kNoon).value_or("");
}

TEST(RunStatus, IsNothingBeforeTheJobIsKnown) {
  RunStatus status;
  EXPECT_FALSE(status.body(kNoon));
  status.note(kJob, at(0));
  EXPECT_EQ(
      body_of(status),
      R"({"trainerStatus":{"progressPercentage":0,"lastUpdatedTime":"2025-11-29T12:00:00Z"}})");
}

TEST(RunStatus, TellsPercentTimeLeftAndTheNewestNumbers) {
  RunStatus status;
  status.note(kJob, at(0));
  status.note(R"({"kind":"step","step":10,"epoch":1,"loss":2.5,"lr":0.1})", at(20));
  status.note(R"({"kind":"step","step":450,"epoch":2,"loss":0.25,"lr":0.05})", at(64));
  status.note(R"({"kind":"evaluation","step":450,"test_accuracy":0.975})", at(64));
  EXPECT_EQ(
      body_of(status),
      R"({"trainerStatus":{"progressPercentage":45,"estimatedRemainingSeconds":55,"metrics":[)"
      R"({"name":"epoch","value":"2"},{"name":"loss","value":"0.25"},)"
      R"({"name":"lr","value":"0.05"},{"name":"test_accuracy","value":"0.975"}],)"
      R"("lastUpdatedTime":"2025-11-29T12:00:00Z"}})");
}

TEST(RunStatus, OnlyAGoodEndIsAHundredPercent) {
  RunStatus status;
  status.note(kJob, at(0));
  status.note(R"({"kind":"step","step":500,"loss":1})", at(10));
  status.note(R"({"kind":"step","step":1000,"loss":1})", at(20));
  EXPECT_THAT(body_of(status), HasSubstr(R"("progressPercentage":99,"metrics")"));
  RunStatus failed = status;
  failed.note(R"({"kind":"end","state":"failed","exit_code":1})", at(21));
  EXPECT_THAT(body_of(failed), AllOf(HasSubstr(":99,"), Not(HasSubstr("Remaining"))));
  status.note(R"({"kind":"end","state":"finished","exit_code":0})", at(21));
  EXPECT_THAT(body_of(status),
              HasSubstr(R"("progressPercentage":100,"estimatedRemainingSeconds":0,)"));
}

TEST(RunStatus, ARunThatGoesOnIsTimedFromThere) {
  RunStatus status;
  status.note(kJob, at(0));
  status.note(R"({"kind":"step","step":900,"loss":1})", at(10));
  status.note(R"({"kind":"job","step":400,"steps":1000})", at(1000));
  EXPECT_THAT(body_of(status), AllOf(HasSubstr(":40,"), Not(HasSubstr("Remaining"))));
  status.note(R"({"kind":"step","step":410,"loss":1})", at(2000));
  status.note(R"({"kind":"step","step":420,"loss":1})", at(2010));
  EXPECT_THAT(body_of(status), HasSubstr(R"("estimatedRemainingSeconds":580)"));
}

TEST(RunStatus, NonsenseIsLeftOut) {
  RunStatus status;
  status.note(kJob, at(0));
  for (const char* const line : {"",
                                 "{",
                                 "[]",
                                 "7",
                                 R"({"kind":7})",
                                 R"({"kind":"step","step":"x","loss":null})",
                                 R"({"kind":"step","step":-5,"loss":"2","nested":{"a":1}})",
                                 R"({"kind":"step","step":1e300,"loss":[]})"})
    status.note(line, at(1));
  EXPECT_EQ(
      body_of(status),
      R"({"trainerStatus":{"progressPercentage":0,"lastUpdatedTime":"2025-11-29T12:00:00Z"}})");
  for (int i = 0; i < 1000; ++i)
    status.note(R"({"kind":"step","step":5,"metric)" + std::to_string(i) + R"(":1})", at(2));
  EXPECT_LT(body_of(status).size(), RunStatus::kMostMetrics * 50);
}

}  // namespace
}  // namespace ddp::worker
