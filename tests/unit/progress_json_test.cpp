#include "launcher/plan/progress_json.h"

#include <gtest/gtest.h>

#include <limits>

namespace ddp::launcher {
namespace {

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
  EXPECT_EQ(worker.at("checkpoint_step"), -1) << "none yet";
  EXPECT_EQ(worker.at("data_wait_seconds"), 1.5);
  EXPECT_TRUE(worker.at("loss").is_null());
  EXPECT_TRUE(worker.at("accuracy").is_null());
}

TEST(ProgressJson, SaysNothingOfAWorkerWithoutAPage) {
  boost::json::object worker;
  add_progress(worker, WorkerSample());
  EXPECT_TRUE(worker.empty());
}

}  // namespace
}  // namespace ddp::launcher
