#include "launcher/plan/web/prometheus.h"

#include <gmock/gmock.h>

#include <limits>
#include <set>
#include <sstream>

#include "tests/unit/job_view_of_test.h"

namespace ddp::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Prometheus, TellsOfTheJobAndOfEachRank) {
  JobView job = a_job(200);
  job.ranks[1].step_seconds = 0.01;
  job.samples_per_second = 6400;
  job.ranks[0].sample.accuracy = 0.875;
  const std::string text = prometheus_text(job);
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("# HELP ddp_rank_data_wait_seconds_total Time that the training loop"),
            HasSubstr("\nddp_step 200\n"),
            HasSubstr("\nddp_loss 0.25\n"),
            HasSubstr("\nddp_samples_total 12800\n"),
            HasSubstr("\nddp_samples_per_second 6400\n"),
            HasSubstr("ddp_job_state{state=\"running\"} 1\n"),
            HasSubstr("ddp_rank_step{rank=\"2\",node=\"1\"} 200\n"),
            HasSubstr("ddp_rank_step_seconds{rank=\"1\",node=\"0\"} 0.01\n"),
            HasSubstr("\nddp_accuracy 0.875\n"),
            HasSubstr("ddp_rank_data_wait_seconds_total{rank=\"1\",node=\"0\"} 0.2\n"),
            HasSubstr("ddp_rank_device_bytes{rank=\"2\",node=\"1\"} 1048578\n"),
            HasSubstr("ddp_rank_phase{rank=\"0\",phase=\"training\"} 1\n")));
}

TEST(Prometheus, EveryFamilyHasItsHeadOnce) {
  std::istringstream lines(prometheus_text(a_job(200)));
  std::set<std::string> families;
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << line;
    } else if (!line.starts_with('#')) {
      EXPECT_EQ(line.substr(0, line.find_first_of("{ ")), family);
    }
  }
}

TEST(Prometheus, TheSlowestRankHasItsShare) {
  JobView job = a_job(200);
  EXPECT_THAT(prometheus_text(job), Not(HasSubstr("slowest")));
  job.slowest.emplace().rank = 2;
  job.slowest->phase = Phase::data;
  job.slowest->share = 0.25;
  job.ranks[1].sample.spent = TimeSpent{.waiting = 1'500'000'000};
  EXPECT_THAT(prometheus_text(job),
              AllOf(HasSubstr("\nddp_slowest_rank_ratio{rank=\"2\",phase=\"data\"} 0.25\n"),
                    HasSubstr("\nddp_rank_collective_seconds_total{rank=\"1\",node=\"0\"} 1.5\n"),
                    Not(HasSubstr("collective_seconds_total{rank=\"0\""))));
}

TEST(Prometheus, LabelsAndValuesAreEscaped) {
  JobView job = a_job(200);
  job.program = "a\"b\\c\nd\xff";
  job.ranks[0].sample.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(
      prometheus_text(job),
      AllOf(HasSubstr("program=\"a\\\"b\\\\c?d\xef\xbf\xbd\""), HasSubstr("\nddp_loss NaN\n")));
}

TEST(Prometheus, ForeignProgramsHaveNoSteps) {
  JobView job = a_job(200);
  for (JobView::Rank& rank : job.ranks) {
    rank.sample.has_page = false;
    rank.sample.device_bytes = 0;
  }
  EXPECT_THAT(prometheus_text(job),
              AllOf(Not(HasSubstr("\nddp_step ")),
                    Not(HasSubstr("ddp_rank_step{")),
                    HasSubstr("ddp_rank_up{rank=\"0\",node=\"0\"} 1\n")));
}

}  // namespace
}  // namespace ddp::launcher
