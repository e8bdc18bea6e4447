#include "common/report/run_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

namespace ddp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kHostile = "<script>alert(1)</script>\"'&\xff";

/// The tag that is closed where another one is open, or open at the end; empty: none.
std::string find_open_tag(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return "<";
    const std::string tag = page.substr(at + 1, end - at - 1);
    at = end;
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '!' || tag.ends_with('/') || name == "meta") continue;
    if (tag[0] != '/') {
      open.push_back(name);
    } else if (open.empty() || open.back() != tag.substr(1)) {
      return tag;
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back();
}

RunRecord small_run() {
  RunRecord run;
  run.name = "mnist";
  run.state = "finished";
  run.seconds = 12.5;
  run.steps = {{1, 2.5, 0.1, 100}, {2, 1.5, 0.1, 100}, {3, kNoNumber, 0.1, 100}};
  run.steps_written = 3;
  run.epochs = {
      {1, 2, true, {{"train_loss", 2}, {"test_loss", 1}, {"test_accuracy", 0.9}, {"seconds", 1}}},
      {2,
       4,
       true,
       {{"train_loss", kNoNumber}, {"test_loss", kNoNumber}, {"test_accuracy", kNoNumber}}}};
  run.ranks = {{1, 2, {{"step_ms", {10, 12}}, {"data_wait_ms", {0.1, 0.2}}}}};
  RecordedRound start;
  start.ranks = {"a, cpu", "b, cpu"};
  run.recorded_rounds = {start, start};
  run.recorded_rounds[1].step = 2;
  run.saves = {2};
  run.keys = {{"train.epochs", "2", "1"}};
  return run;
}

TEST(RunPage, ARunIsTold) {
  const std::string page = run_page(small_run());
  EXPECT_EQ(find_open_tag(page), "");
  for (const char* const text : {"best test accuracy, epoch 1",
                                 "90.00 %",
                                 "1 (best)",
                                 "12.5 s",
                                 "train.epochs",
                                 "went on after step 2",
                                 "checkpoint after step 2",
                                 "Milliseconds per step: data wait",
                                 "a, cpu"})
    EXPECT_THAT(page, HasSubstr(text));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
}

TEST(RunPage, WithoutAnyRecordThereIsStillAPage) {
  const std::string page = run_page({});
  EXPECT_EQ(find_open_tag(page), "");
  EXPECT_THAT(page, HasSubstr("Nothing was written that could be drawn"));
  EXPECT_THAT(page, HasSubstr("What became of this run is not known"));
}

TEST(RunPage, AFailureStandsAboveTheCurves) {
  RunRecord run = small_run();
  run.state = "failed";
  run.exit_code = 137;
  run.cause = RecordedCause{"signal SIGKILL", "rank 1", "", "more memory", "", {"last words"}};
  run.earlier_rounds = {"round 0 failed"};
  const std::string page = run_page(run);
  EXPECT_EQ(find_open_tag(page), "");
  EXPECT_LT(page.find("signal SIGKILL"), page.find(">Curves<"));
  EXPECT_THAT(page, HasSubstr("end-failed"));
  EXPECT_THAT(page, HasSubstr("Exit code 137"));
  EXPECT_THAT(page, HasSubstr("round 0 failed"));
}

TEST(RunPage, WhateverHasANameIsEscaped) {
  RunRecord run = small_run();
  run.name = run.path = run.command = run.meaning = run.decided_by = kHostile;
  run.policy = run.failure = run.best_checkpoint = kHostile;
  run.cause = RecordedCause{kHostile, kHostile, kHostile, kHostile, kHostile, {kHostile}};
  run.earlier_rounds = run.checkpoints = run.problems = {kHostile};
  run.keys = {{kHostile, kHostile, kHostile}};
  const std::string name = std::string("test_") + kHostile;
  run.epochs[0].numbers[name] = 1;
  RecordedRound start;
  start.ranks = {kHostile};
  start.versions = start.directory = start.commit = kHostile;
  start.monitored = kHostile;
  run.recorded_rounds = {start};
  RecordedClasses classes;
  classes.names = {kHostile, "b"};
  classes.counts = {1, 2, 0, 4};
  classes.numbers[kHostile] = {0.5, 0.5};
  run.classes = classes;
  const std::string page = run_page(run);
  EXPECT_EQ(find_open_tag(page), "");
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("\xff")));
}

TEST(RunPage, TheSlowestRankIsNamedIfOneStandsOut) {
  RunRecord run = small_run();
  EXPECT_THAT(run_page(run), Not(HasSubstr("was the slowest")));
  std::map<std::string, std::vector<double>> numbers;
  const auto page_of_two_epochs = [&] {
    run.ranks = {{1, 2, numbers}, {2, 4, numbers}};
    return run_page(run);
  };
  numbers["step_ms"] = {100, 100, 100};
  numbers["data_wait_ms"] = {1, 1, 1};
  numbers["forward_ms"] = {20, 22, 21};
  EXPECT_THAT(page_of_two_epochs(), Not(HasSubstr("was the slowest"))) << "a part is not known";
  numbers["backward_ms"] = {30, 75, 32};
  EXPECT_THAT(page_of_two_epochs(),
              HasSubstr("<p>Rank 1 was the slowest: others waited for it 44 % of a step, most for "
                        "its backward (75 ms, of other ranks 32 ms).</p>"));
  run.ranks[0].numbers["backward_ms"] = {75, 30, 32};
  EXPECT_THAT(run_page(run), Not(HasSubstr("was the slowest"))) << "another one before";
  run.ranks.resize(1);
  EXPECT_THAT(run_page(run), Not(HasSubstr("was the slowest"))) << "of one epoch";
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  numbers["backward_ms"] = {30, 40, 32};
  EXPECT_THAT(page_of_two_epochs(), Not(HasSubstr("was the slowest")));
  numbers["backward_ms"] = {30, kNaN, 32};
  EXPECT_THAT(page_of_two_epochs(), Not(HasSubstr("was the slowest")));
  numbers["backward_ms"] = {30, 75, 32};
  for (const double step : {kNaN, 0.0}) {
    numbers["step_ms"] = {100, step, 100};
    EXPECT_THAT(page_of_two_epochs(), Not(HasSubstr("was the slowest")));
  }
}

TEST(RunPage, OneOfManyRanksAndClassesStaysSmall) {
  RunRecord run = small_run();
  run.ranks = {{1, 2, {{"step_ms", std::vector<double>(10'000, 5)}}}};
  run.recorded_rounds[1].ranks.assign(10'000, "host");
  RecordedClasses classes;
  classes.names.assign(RecordedClasses::kMost, "class");
  classes.counts.assign(RecordedClasses::kMost * RecordedClasses::kMost, 1);
  run.classes = classes;
  run.steps.assign(4000, {5, 1, 1, 1});
  run.saves.assign(100'000, 3);
  run.epochs.assign(100'000, run.epochs[0]);
  const std::string page = run_page(run);
  EXPECT_EQ(find_open_tag(page), "");
  EXPECT_LT(page.size(), 1'000'000U);
  EXPECT_THAT(page, HasSubstr("and 9744 more ranks"));
  EXPECT_THAT(page, HasSubstr("slowest rank"));
}

}  // namespace
}  // namespace ddp
