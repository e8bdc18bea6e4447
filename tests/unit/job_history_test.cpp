#include "launcher/plan/web/job_history.h"

#include <gmock/gmock.h>

#include "tests/unit/job_view_of_test.h"

namespace ddp::launcher {
namespace {

TEST(JobHistory, KnowsWhatAStepTakes) {
  JobHistory history;
  JobView job;
  for (int second = 0; second <= 30; ++second) {
    job = a_job(100 + 100 * second);
    job.ranks[1].sample.written_ns *= 2;  // its clock says twice as long
    history.note(job);
  }
  ASSERT_TRUE(job.ranks[0].step_seconds && job.ranks[1].step_seconds && job.samples_per_second);
  EXPECT_DOUBLE_EQ(*job.ranks[0].step_seconds, 0.01);
  EXPECT_DOUBLE_EQ(*job.ranks[1].step_seconds, 0.02);
  EXPECT_DOUBLE_EQ(*job.samples_per_second, 6400);
  EXPECT_DOUBLE_EQ(history.curves().slowest_step.points().back().y, 0.02);
  EXPECT_DOUBLE_EQ(history.curves().fastest_step.points().back().y, 0.01);
  EXPECT_DOUBLE_EQ(history.curves().loss.points().back().x, 3100);
}

TEST(JobHistory, APageThatWasOpenedAloneTellsNothing) {
  JobHistory history;
  JobView job = a_job(0);
  for (JobView::Rank& rank : job.ranks)
    rank.sample.loss.reset();
  history.note(job);
  const std::chrono::hours boot(24);  // its clock counts from there
  for (const int step : {10, 20}) {
    job = a_job(step);
    for (JobView::Rank& rank : job.ranks) {
      rank.sample.written_ns += std::chrono::nanoseconds(boot).count();
      if (step == 10) rank.sample.loss.reset();
    }
    history.note(job);
  }
  EXPECT_DOUBLE_EQ(*job.ranks[0].step_seconds, 0.01);
  EXPECT_DOUBLE_EQ(*job.samples_per_second, 6400);
  ASSERT_EQ(history.curves().loss.points().size(), 1U);
  EXPECT_EQ(history.curves().loss.points()[0].y, 0.25);
}

TEST(JobHistory, KnowsWhoWaitsForOthers) {
  JobHistory history;
  JobView job;
  for (int second = 0; second <= 100; ++second) {
    job = a_job(100 + second);
    job.ranks[0].sample.in_collective = true;
    job.ranks[1].sample.in_collective = second % 2 == 0;
    history.note(job);
  }
  EXPECT_NEAR(*job.ranks[0].waiting, 1, 0.01);
  EXPECT_NEAR(*job.ranks[1].waiting, 0.5, 0.05);
  EXPECT_NEAR(*job.ranks[2].waiting, 0, 0.01);
}

TEST(JobHistory, KnowsWhoWaitsForDataAndWhatEvaluationsGave) {
  JobHistory history;
  JobView job;
  for (int second = 0; second <= 30; ++second) {
    job = a_job(100 + 100 * second);
    job.ranks[1].sample.data_wait_ns *= 5;
    if (second >= 10) job.ranks[0].sample.accuracy = second < 20 ? 0.5 : 0.75;
    history.note(job);
  }
  EXPECT_NEAR(job.ranks[0].data_wait.value_or(-1), 0.1, 1e-6);
  EXPECT_NEAR(job.ranks[1].data_wait.value_or(-1), 0.5, 1e-6);
  EXPECT_NEAR(history.curves().most_data_wait.points().back().y, 0.5, 1e-6);
  EXPECT_EQ(history.curves().most_device.points().back().y, (1 << 20) + 2);
  const auto& accuracy = history.curves().accuracy.points();
  ASSERT_EQ(accuracy.size(), 21U);
  EXPECT_EQ(accuracy.front().x, 1100);
  EXPECT_EQ(accuracy.front().y, 0.5);
  EXPECT_EQ(accuracy.back().y, 0.75);
}

TEST(JobHistory, ARoundThatBeginsAnewDropsWhatLayBehindIt) {
  JobHistory history;
  for (const int step : {100, 200, 300}) {
    JobView job = a_job(step);
    history.note(job);
  }
  JobView job = a_job(150);
  job.round = 1;
  history.note(job);
  const auto& points = history.curves().loss.points();
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].x, 100);
  EXPECT_EQ(points[1].x, 150);
  ASSERT_EQ(history.marks().size(), 2U);  // the checkpoint of step 100, the round
  EXPECT_EQ(history.marks()[1].kind, ChartMark::Kind::restart);
  EXPECT_EQ(history.marks()[1].x, 150);
}

TEST(JobHistory, ARoundThatIsStillStartingTakesNoMarkAway) {
  JobHistory history;
  JobView job = a_job(300);
  history.note(job);
  job = a_job(0);
  job.round = 1;
  for (JobView::Rank& rank : job.ranks)
    rank.sample.checkpoint_step = -1;
  history.note(job);
  ASSERT_EQ(history.marks().size(), 1U);
  job = a_job(100);
  job.round = 1;
  history.note(job);
  ASSERT_EQ(history.marks().size(), 2U);
  EXPECT_EQ(history.marks()[0].x, 100);
  EXPECT_EQ(history.marks()[1].kind, ChartMark::Kind::restart);
  EXPECT_EQ(history.marks()[1].x, 100);
}

TEST(Series, ALongOneKeepsItsShapeAndItsEnd) {
  Series series;
  for (int i = 0; i < 100'000; ++i)
    series.add(i, 2.0 * i);
  const auto& points = series.points();
  EXPECT_LE(points.size(), Series::kMaxPoints);
  EXPECT_GE(points.size(), Series::kMaxPoints / 3);
  EXPECT_EQ(points.front().x, 0);
  EXPECT_EQ(points.back().x, 99'999);
  // Evenly: none of its quarters is empty.
  const auto in_first_half =
      std::ranges::count_if(points, [](const ChartPoint& point) { return point.x < 50'000; });
  EXPECT_NEAR(static_cast<double>(in_first_half), static_cast<double>(points.size()) / 2, 5);
}

TEST(JobHistory, MarksAreBounded) {
  JobHistory history;
  for (int i = 1; i < 5000; ++i) {
    JobView job = a_job(i);
    for (JobView::Rank& rank : job.ranks)
      rank.sample.checkpoint_step = i;
    history.note(job);
  }
  EXPECT_LE(history.marks().size(), JobHistory::kMaxMarks);
}

}  // namespace
}  // namespace ddp::launcher
