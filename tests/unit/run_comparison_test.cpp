#include "common/report/run_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ddp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunRecord make_run(const std::string& name, double accuracy, std::vector<ChangedKey> keys = {}) {
  RunRecord run;
  run.name = name;
  run.state = "finished";
  run.epochs = {{1, 10, true, {{"test_accuracy", accuracy}, {"images_per_s", 100}}},
                {2, 20, true, {{"test_accuracy", accuracy - 0.1}, {"images_per_s", 300}}}};
  run.keys = std::move(keys);
  return run;
}

TEST(RunComparison, KeysThatAreEverywhereTheSameAreNotListed) {
  const std::vector<RunRecord> runs{
      make_run("a", 0.5, {{"seed", "2", "1"}, {"train.epochs", "3", "1"}}),
      make_run("b", 0.7, {{"train.epochs", "3", "1"}})};
  const std::vector<DifferingKey> keys = differing_keys(runs);
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].path, "seed");
  EXPECT_THAT(keys[0].values, ElementsAre("2", "1"));
}

TEST(RunComparison, TheBestIsThatOfOneMeasure) {
  std::vector<RunRecord> runs{make_run("a", 0.5), make_run("b", 0.7), RunRecord()};
  EXPECT_EQ(best_run(runs), 1U);
  runs[0].keys = {{"data.name", "mnist", "digits"}};
  EXPECT_EQ(best_run(runs), std::nullopt) << "on other data";
  runs[0].keys = {};
  runs.push_back(make_run("c", 0.1));
  runs.back().epochs[0].numbers = {{"test_loss", 0.1}};
  runs.back().epochs[1].numbers = {};
  EXPECT_EQ(best_run(runs), std::nullopt) << "a loss and an accuracy";
  EXPECT_EQ(best_run({}), std::nullopt);
}

TEST(RunComparison, TheMedianOfTwoEpochsIsBetweenThem) {
  EXPECT_EQ(throughput_of(make_run("a", 0.5)), 200);
}

TEST(RunComparison, EveryRunHasARow) {
  const std::string text = comparison_text(
      std::vector{make_run("a", 0.5), make_run("b", 0.7, {{"seed", "2", "1"}}), RunRecord()});
  EXPECT_THAT(text, HasSubstr("accuracy 70.00 % (best)  1      2       20"));
  EXPECT_THAT(text, HasSubstr("seed  1  2  1"));
  EXPECT_THAT(text, HasSubstr("unknown"));
}

TEST(RunComparison, MissingJobIsNotTakenForTheDefaults) {
  std::vector<RunRecord> runs{make_run("a", 0.5, {{"optimizer.lr", "0.9", "0.05"}}),
                              make_run("b", 0.7)};
  runs[1].has_job = false;
  EXPECT_EQ(best_run(runs), std::nullopt) << "perhaps on other data";
  const std::string text = comparison_text(runs);
  EXPECT_THAT(text, HasSubstr("optimizer.lr  0.9  ?\n"));
  EXPECT_THAT(text, HasSubstr("b: its job.yaml is missing or cannot be read\n"));
  EXPECT_THAT(comparison_page(runs), HasSubstr("b: its job.yaml is missing or cannot be read"));
  runs[0].keys = {};
  EXPECT_THAT(comparison_text(runs), Not(HasSubstr("no key of their jobs differs")));
}

TEST(RunComparison, HostileNamesAreShownAndHarmless) {
  const std::vector<RunRecord> runs{
      make_run("<script>\x1b[2J\n", 0.5, {{"<b>", "<script>\x1b]0;", "<i>"}}), make_run("b", 0.5)};
  const std::string page = comparison_page(runs);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(comparison_text(runs), Not(HasSubstr("\x1b")));
  EXPECT_THAT(comparison_page({}), HasSubstr("0 runs"));
}

}  // namespace
}  // namespace ddp
