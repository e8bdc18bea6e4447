#include "common/report/run_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/job/job_text.h"
#include "common/job/resolve_job.h"

namespace ddp {
namespace {

using ::testing::ElementsAre;

RunRecord parse_metrics(const std::vector<std::string>& lines) {
  RunRecord run;
  MetricsParser parser(run);
  for (const std::string& line : lines)
    parser.add_json(line);
  return run;
}

TEST(RunParser, StepsEpochsAndEvaluationsAreRead) {
  const RunRecord run = parse_metrics(
      {R"({"kind":"step","epoch":1,"step":20,"loss":1.5,"lr":0.1,"images_per_s":100})",
       R"({"kind":"evaluation","epoch":1,"step":25,"test_loss":0.5})",
       R"({"kind":"epoch","epoch":1,"step":40,"train_loss":1,"test_accuracy":0.5,"seconds":2})"});
  ASSERT_EQ(run.steps.size(), 1U);
  EXPECT_EQ(run.steps[0].step, 20);
  EXPECT_EQ(run.steps[0].loss, 1.5);
  ASSERT_EQ(run.epochs.size(), 2U);
  EXPECT_FALSE(run.epochs[0].is_whole);
  EXPECT_EQ(run.epochs[1].number("test_accuracy"), 0.5);
  EXPECT_EQ(last_step(run), 40);
  EXPECT_EQ(time_of(run), 2);
  RunRecord ended = run;
  parse_result(R"({"state":"finished","seconds":1.5})", ended);
  EXPECT_EQ(time_of(ended), 2) << "of its last start alone";
  parse_result(R"({"state":"finished","seconds":1.5,"earlier_seconds":4})", ended);
  EXPECT_EQ(time_of(ended), 5.5);
}

TEST(RunParser, EpochsOfAnOlderRunAreCountedFromOneToo) {
  const RunRecord run = parse_metrics({R"({"kind":"epoch","epoch":0,"step":40,"train_loss":1})",
                                       R"({"kind":"epoch","epoch":1,"step":80,"train_loss":1})"});
  ASSERT_EQ(run.epochs.size(), 2U);
  EXPECT_EQ(run.epochs[0].epoch, 1);
  EXPECT_EQ(run.epochs[1].epoch, 2);
}

TEST(RunParser, LinesThatAreNotUnderstoodAreLeftOut) {
  const RunRecord run = parse_metrics({"",
                                       "nonsense",
                                       "[1,2]",
                                       R"({"kind":"step","epoch":1,"st)",
                                       R"({"kind":"step","step":-3,"loss":1})",
                                       R"({"kind":"step","step":1e300,"loss":1})",
                                       R"({"kind":"step","step":"7","loss":1})",
                                       R"({"kind":"epoch","epoch":1})",
                                       R"({"kind":7,"step":3})",
                                       R"({"kind":"step","step":4,"loss":null,"lr":"x"})",
                                       std::string(100'000, '[')});
  ASSERT_EQ(run.steps.size(), 1U);
  EXPECT_TRUE(std::isnan(run.steps[0].loss));
  EXPECT_TRUE(std::isnan(run.steps[0].lr));
  EXPECT_TRUE(run.epochs.empty());
}

TEST(RunParser, AMillionStepsAreThinned) {
  RunRecord run;
  MetricsParser parser(run);
  for (int i = 1; i <= 1'000'000; ++i)
    parser.add_json(R"({"kind":"step","epoch":1,"step":)" + std::to_string(i) + R"(,"loss":1})");
  EXPECT_EQ(run.steps_written, 1'000'000);
  EXPECT_LE(run.steps.size(), MetricsParser::kMaxSteps);
  EXPECT_GE(run.steps.size(), MetricsParser::kMaxSteps / 2 - 1);
  EXPECT_EQ(run.steps.front().step, 1);
  EXPECT_GT(run.steps.back().step, 999'000);
}

TEST(RunParser, TheCsvTellsTheSame) {
  RunRecord run;
  MetricsParser parser(run);
  for (const char* const line : {"kind,epoch,step,loss,lr,train_loss,test_accuracy",
                                 "step,1,20,1.5,0.1,,",
                                 "step,1,21,nan,0.1,,",
                                 "step,1",
                                 "epoch,1,40,,,1.25,0.5,extra"})
    parser.add_csv(line);
  ASSERT_EQ(run.steps.size(), 2U);
  EXPECT_EQ(run.steps[0].loss, 1.5);
  EXPECT_TRUE(std::isnan(run.steps[1].loss));
  ASSERT_EQ(run.epochs.size(), 1U);
  EXPECT_EQ(run.epochs[0].number("test_accuracy"), 0.5);
  EXPECT_FALSE(run.epochs[0].numbers.contains("loss")) << "empty is not there";
}

TEST(RunParser, ARoundDropsWhatEarlierOnesToldOfLaterSteps) {
  RunRecord run;
  for (const char* const line :
       {R"({"kind":"round","round":0,"step":0,"ranks":["a","b"],"watch":"accuracy",)"
        R"("higher_is_better":true})",
        R"({"kind":"ranks","epoch":1,"step":10,"step_ms":[1,2]})",
        R"({"kind":"save","step":10})",
        R"({"kind":"ranks","epoch":2,"step":20,"step_ms":[1,null]})",
        R"({"kind":"save","step":20})",
        R"({"kind":"round","round":1,"step":10,"ranks":["a"]})",
        R"({"kind":"ranks","epoch":2,"step":20,"step_ms":[3]})",
        R"({"kind":"ranks","epo)"})
    parse_round_line(line, run);
  EXPECT_EQ(run.recorded_rounds.size(), 2U);
  EXPECT_THAT(run.recorded_rounds[0].ranks, ElementsAre("a", "b"));
  EXPECT_THAT(run.saves, ElementsAre(10));
  ASSERT_EQ(run.ranks.size(), 2U);
  EXPECT_THAT(run.ranks[1].numbers.at("step_ms"), ElementsAre(3));
}

TEST(RunParser, TheBestIsWhatTheRunWatches) {
  RunRecord run = parse_metrics({R"({"kind":"epoch","epoch":1,"step":1,"test_loss":2,"test_f":1})",
                                 R"({"kind":"epoch","epoch":2,"step":2,"test_loss":1,"test_f":3})",
                                 R"({"kind":"epoch","epoch":3,"step":3,"test_loss":3,"test_f":3})",
                                 R"({"kind":"epoch","epoch":4,"step":4,"test_loss":null})"});
  EXPECT_EQ(monitored_of(run).metric, "test_loss");
  EXPECT_EQ(best_of(run, monitored_of(run)), 1U);
  parse_round_line(R"({"kind":"round","step":0,"watch":"f","higher_is_better":true,"ranks":["a"]})",
                   run);
  EXPECT_EQ(monitored_of(run).metric, "test_f");
  EXPECT_EQ(best_of(run, monitored_of(run)), 1U) << "an equal one is not better";
  EXPECT_EQ(best_of(run, {"test_none", true}), std::nullopt);
}

TEST(RunParser, TheEndAndItsCauseAreRead) {
  RunRecord run;
  parse_result(R"({"state":"failed","exit_code":137,"batch":64,"seconds":2.5,"world_size":2,)"
               R"("root_cause":{"rank":1,"pid":17,"host":"a","what":"SIGKILL",)"
               R"("last_lines":["one",2]},"earlier_rounds":["round 0"]})",
               run);
  EXPECT_EQ(run.state, "failed");
  EXPECT_EQ(run.exit_code, 137);
  ASSERT_TRUE(run.cause.has_value());
  EXPECT_EQ(run.cause->where, "rank 1, pid 17, host a");
  EXPECT_THAT(run.cause->last_lines, ElementsAre("one", ""));

  RunRecord odd;
  parse_result(R"({"state":"<script>","exit_code":"x","root_cause":7})", odd);
  EXPECT_EQ(odd.state, "unknown");
  EXPECT_TRUE(odd.problems.empty());
  parse_result("{", odd);
  EXPECT_THAT(odd.problems, ElementsAre("result.json cannot be read"));
}

TEST(RunParser, KeysThatDifferFromTheirDefaultsAreListed) {
  const std::vector<JobOverride> given{{"train.epochs", "7", "test"},
                                       {"data.batch_per_rank", "64", "test"}};
  RunRecord run;
  parse_job(to_yaml(resolve_job(nullptr, given)), run);
  const auto epochs = std::ranges::find(run.keys, "train.epochs", &ChangedKey::path);
  ASSERT_NE(epochs, run.keys.end());
  EXPECT_EQ(epochs->value, "7");
  EXPECT_EQ(std::ranges::count(run.keys, "seed", &ChangedKey::path), 0);
  parse_job("no: [job", run);
  EXPECT_EQ(run.problems.size(), 1U);
}

TEST(RunParser, ClassesComeAsPairs) {
  RunRecord run;
  parse_classes(R"({"step":9,"classes":2,"names":["cat"],"background":true,)"
                R"("numbers":{"AP50":[0.5]},)"
                R"("confusion":[[0,0,3],[0,2,1],[5,0,1],[-1,0,1],[0,1],"x",[1,1,-4]]})",
                run);
  ASSERT_TRUE(run.classes.has_value());
  EXPECT_THAT(run.classes->names, ElementsAre("cat", "1", "background"));
  EXPECT_THAT(run.classes->counts, ElementsAre(3, 0, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(run.classes->numbers.at("AP50").size(), 2U);
  parse_classes(R"({"classes":100000,"confusion":[]})", run);
  EXPECT_EQ(run.problems.size(), 1U);
}

}  // namespace
}  // namespace ddp
