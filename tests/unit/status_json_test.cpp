#include "launcher/plan/web/status_json.h"

#include <gmock/gmock.h>

#include <limits>

#include "launcher/plan/status/status_answer.h"
#include "tests/unit/job_view_of_test.h"

namespace ddp::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(StatusJson, HasTheNamesOfStatus) {
  const std::optional<JobAnswer> answer = read_answer(status_json(a_job(200)));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->run_id, "0123456789abcdef");
  EXPECT_EQ(answer->endpoint, "127.0.0.1:29500");
  ASSERT_EQ(answer->workers.size(), 3U);
  EXPECT_EQ(answer->workers[2].rank, "2");
  EXPECT_EQ(answer->workers[2].step, "200");
  EXPECT_EQ(answer->workers[2].checkpoint_step, "100");
  EXPECT_THAT(status_json(a_job(200)),
              AllOf(HasSubstr("\"data_wait_seconds\":0.2"),
                    HasSubstr("\"device_bytes\":1048577"),
                    HasSubstr("\"accuracy\":null")));
}

TEST(StatusJson, UnknownValuesAreLeftOut) {
  JobView job = a_job(200);
  job.ranks[0].sample.has_page = false;
  job.ranks[0].sample.activity.resident_bytes = 0;
  job.ranks.resize(1);
  EXPECT_THAT(
      status_json(job),
      Not(testing::AnyOf(HasSubstr("step"), HasSubstr("resident"), HasSubstr("exit_code"))));
}

TEST(StatusJson, NamesTheSlowestRank) {
  JobView job = a_job(200);
  EXPECT_THAT(status_json(job), Not(HasSubstr("slowest_rank")));
  job.slowest = SlowRank{1, Phase::backward, 0.25, {}, {}, NodeCause::stopped, 0.5};
  job.ranks[1].sample.spent = TimeSpent{.backward = 1'500'000'000};
  const std::string text = status_json(job);
  EXPECT_THAT(text,
              AllOf(HasSubstr(R"("slowest_rank":{"rank":1,"phase":"backward","share":0.25)"),
                    HasSubstr("again and again (state T)\"}"),
                    HasSubstr(R"("backward":1.5)")));
  ASSERT_TRUE(read_answer(text));
  EXPECT_EQ(read_answer(text)->slowest, to_text(*job.slowest));
}

TEST(StatusJson, AWorkerThatWasNotStartedHasNoPid) {
  JobView job = a_job(200);
  job.ranks[0].pid = 0;
  EXPECT_THAT(status_json(job), HasSubstr("\"pid\":null"));
}

TEST(StatusJson, StatusIsJsonWhateverWorkersWrite) {
  JobView job = a_job(200);
  job.ranks[0].sample.loss = std::numeric_limits<double>::quiet_NaN();
  job.ranks[1].last_lines = {"\xff\x1b[31m\"</script>\n"};
  const std::string text = status_json(job);
  EXPECT_TRUE(read_answer(text)) << text;
  EXPECT_THAT(text, HasSubstr("\"loss\":null"));
}

TEST(ProgressJson, TellsWhatThePageTells) {
  WorkerSample sample;
  sample.has_page = true;
  sample.phase = Phase::training;
  sample.step = 7;
  sample.data_wait_ns = 1'500'000'000;
  sample.loss = std::numeric_limits<double>::infinity();
  boost::json::object worker{{"rank", 3}};
  add_progress(worker, sample);
  EXPECT_EQ(worker.at("rank"), 3);
  EXPECT_EQ(worker.at("phase"), "training");
  EXPECT_EQ(worker.at("step"), 7);
  EXPECT_EQ(worker.at("data_wait_seconds"), 1.5);
  EXPECT_TRUE(worker.at("loss").is_null());
  EXPECT_EQ(worker.at("loss_is_finite"), false);
}

TEST(ProgressJson, ValuesThatAreNotThereYetAreNull) {
  WorkerSample sample;
  sample.has_page = true;
  boost::json::object worker;
  add_progress(worker, sample);
  for (const char* const name :
       {"epoch", "steps_total", "loss", "lr", "checkpoint_step", "accuracy"})
    EXPECT_TRUE(worker.at(name).is_null()) << name;
  EXPECT_EQ(worker.at("step"), 0);
  EXPECT_FALSE(worker.contains("loss_is_finite"));
  sample.loss = sample.lr = 0;
  sample.checkpoint_step = 0;
  add_progress(worker, sample);
  for (const char* const name : {"loss", "lr", "checkpoint_step"})
    EXPECT_EQ(worker.at(name).to_number<double>(), 0) << name;
}

TEST(ProgressJson, SaysNothingOfAWorkerWithoutAPage) {
  boost::json::object worker;
  add_progress(worker, WorkerSample());
  EXPECT_TRUE(worker.empty());
}

}  // namespace
}  // namespace ddp::launcher
