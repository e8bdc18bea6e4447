#include "launcher/plan/status/progress_json.h"

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
  EXPECT_EQ(worker.at("data_wait_seconds"), 1.5);
  EXPECT_TRUE(worker.at("loss").is_null());
  EXPECT_EQ(worker.at("loss_is_finite"), false);
}

TEST(ProgressJson, WhatIsNotThereYetIsNull) {
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
