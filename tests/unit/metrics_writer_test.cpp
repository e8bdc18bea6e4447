#include "worker/save/records/metrics_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <boost/json.hpp>
#include <cmath>
#include <limits>

#include "common/cli/log.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> lines_of(const Scratch& scratch, const std::string& name) {
  std::istringstream text(scratch.read(name));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    lines.push_back(line);
  return lines;
}

StepRecord step_record(std::int64_t step) {
  return {.epoch = (step - 1) / 10,
          .step = step,
          .loss = 1. / static_cast<double>(step),
          .lr = 0.05,
          .images_per_s = 12000};
}

EpochRecord epoch_record(std::int64_t epoch) {
  return {.epoch = epoch,
          .step = (epoch + 1) * 10,
          .train = {{"loss", 0.25}, {"accuracy", 0.5}},
          .test = {{"loss", 0.125}, {"accuracy", 0.9875}},
          .images_per_s = 11000,
          .seconds = 1.5};
}

TEST(MetricsWriter, WritesTheRecordsOfTheDesign) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  MetricsWriter writer({.directory = directory});
  writer.write(step_record(20));
  writer.write(epoch_record(1));
  EXPECT_THAT(
      lines_of(scratch, "metrics.jsonl"),
      ElementsAre(
          R"({"kind":"step","epoch":2,"step":20,"loss":0.05,"lr":0.05,"images_per_s":12000})",
          R"({"kind":"epoch","epoch":2,"step":20,"train_loss":0.25,"train_accuracy":0.5,)"
          R"("test_loss":0.125,"test_accuracy":0.9875,"images_per_s":11000,"seconds":1.5})"));
  EXPECT_THAT(lines_of(scratch, "metrics.csv"),
              ElementsAre("kind,epoch,step,loss,lr,train_loss,train_accuracy,test_loss,"
                          "test_accuracy,images_per_s,"
                          "seconds,forward_ms,backward_ms,communication_ms,overlap_ms,loss_scale,"
                          "skipped_steps,data_wait_ms",
                          "step,2,20,0.05,0.05,,,,,12000,,,,,,,,",
                          "epoch,2,20,,,0.25,0.5,0.125,0.9875,11000,1.5,,,,,,,"));
}

TEST(MetricsWriter, MissingAndNonFiniteValuesAreNull) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  MetricsWriter writer({.directory = directory, .tensorboard = false});
  StepRecord lost = step_record(1);
  lost.loss = std::nan("");
  writer.write(lost);
  EpochRecord unseen = epoch_record(0);
  unseen.test.clear();
  writer.write(unseen);
  const std::vector<std::string> json = lines_of(scratch, "metrics.jsonl");
  EXPECT_THAT(json[0], HasSubstr("\"loss\":null"));
  EXPECT_THAT(json[1], HasSubstr("\"test_loss\":null,\"test_accuracy\":null"));
  const std::vector<std::string> csv = lines_of(scratch, "metrics.csv");
  EXPECT_THAT(csv[1], HasSubstr("step,1,1,nan,"));
  EXPECT_THAT(csv[2], HasSubstr("0.25,0.5,,,11000"));
}

TEST(MetricsWriter, AnotherTaskHasItsOwnColumnsAndPartsOfALossHaveNone) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  MetricsWriter writer({.directory = directory,
                        .tensorboard = false,
                        .train_names = {"loss"},
                        .test_names = {"loss", "map50"}});
  EvaluationRecord half{0, 5, {{"loss", 2}, {"map50", 0.25}, {"loss/box", 1.5}}};
  writer.write(half);
  EpochRecord whole = epoch_record(0);
  whole.train = {{"loss", 3}};
  whole.test = {{"loss", 1}, {"map50", 0.5}};
  whole.more = {{"queue", 7}};
  writer.write(whole);
  EXPECT_THAT(
      lines_of(scratch, "metrics.jsonl"),
      ElementsAre(
          R"({"kind":"evaluation","epoch":1,"step":5,"test_loss":2,"test_map50":0.25,"test_loss/box":1.5})",
          R"({"kind":"epoch","epoch":1,"step":10,"train_loss":3,"test_loss":1,"test_map50":0.5,)"
          R"("images_per_s":11000,"seconds":1.5,"queue":7})"));
  const std::vector<std::string> csv = lines_of(scratch, "metrics.csv");
  EXPECT_THAT(csv[0],
              HasSubstr("kind,epoch,step,loss,lr,train_loss,test_loss,test_map50,images_per_s,"));
  EXPECT_THAT(csv[1], HasSubstr("evaluation,1,5,,,,2,0.25,,"));
}

TEST(MetricsWriter, NumbersReadBackBitEqual) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  MetricsWriter writer({.directory = directory, .tensorboard = false});
  const std::vector<double> numbers{0.1 + 0.2,
                                    1. / 3,
                                    1e-300,
                                    static_cast<double>(0.1F),
                                    std::numeric_limits<double>::denorm_min(),
                                    123456789.123456789};
  for (const double number : numbers) {
    StepRecord record = step_record(1);
    record.loss = number;
    writer.write(record);
  }
  const std::vector<std::string> csv = lines_of(scratch, "metrics.csv");
  const std::vector<std::string> json = lines_of(scratch, "metrics.jsonl");
  ASSERT_THAT(csv, SizeIs(numbers.size() + 1));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(std::strtod(csv[i + 1].c_str() + std::string("step,1,1,").size(), nullptr),
              numbers[i]);
    const std::string key = "\"loss\":";
    EXPECT_EQ(std::strtod(json[i].c_str() + json[i].find(key) + key.size(), nullptr), numbers[i]);
  }
}

TEST(MetricsWriter, ARunThatGoesOnDropsTheRecordsItWillWriteAgain) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  {
    MetricsWriter writer({.directory = directory});
    for (std::int64_t step = 5; step <= 20; step += 5)
      writer.write(step_record(step));
    writer.write(epoch_record(0));  // step 10
    writer.write(epoch_record(1));  // step 20
  }
  {
    MetricsWriter writer({.directory = directory, .resumed_step = 10});
    writer.write(step_record(15));
  }
  const auto is_from = [](const std::string& start) { return testing::StartsWith(start); };
  EXPECT_THAT(lines_of(scratch, "metrics.jsonl"),
              ElementsAre(is_from(R"({"kind":"step","epoch":1,"step":5,)"),
                          is_from(R"({"kind":"step","epoch":1,"step":10,)"),
                          is_from(R"({"kind":"epoch","epoch":1,"step":10,)"),
                          is_from(R"({"kind":"step","epoch":2,"step":15,)")));
  EXPECT_THAT(lines_of(scratch, "metrics.csv"),
              ElementsAre(is_from("kind,epoch,step"),
                          is_from("step,1,5,"),
                          is_from("step,1,10,"),
                          is_from("epoch,1,10,"),
                          is_from("step,2,15,")));
}

TEST(MetricsWriter, RecordsThatCountEpochsFromZeroAreCountedFromOneWhenTheRunGoesOn) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  const std::string header =
      "kind,epoch,step,loss,lr,train_loss,train_accuracy,test_loss,test_accuracy,images_per_s,"
      "seconds,forward_ms,backward_ms,communication_ms,overlap_ms,loss_scale,skipped_steps,"
      "data_wait_ms\n";
  scratch.write("metrics.jsonl",
                R"({"kind":"step","epoch":0,"step":10,"loss":0.1})"
                "\n"
                R"({"kind":"epoch","epoch":0,"step":10,"train_loss":0.1})"
                "\n"
                R"({"kind":"step","epoch":1,"step":20,"loss":0.1})"
                "\n"
                R"({"kind":"step","epoch":2,"step":30,"loss":0.1})"
                "\n");
  scratch.write("metrics.csv",
                header + "step,0,10,0.1,\nepoch,0,10,\nstep,1,20,0.1,\nstep,2,30,\n");
  for (int i = 0; i < 2; ++i)
    MetricsWriter({.directory = directory, .tensorboard = false, .resumed_step = 20});
  EXPECT_THAT(lines_of(scratch, "metrics.jsonl"),
              ElementsAre(R"({"kind":"step","epoch":1,"step":10,"loss":0.1})",
                          R"({"kind":"epoch","epoch":1,"step":10,"train_loss":0.1})",
                          R"({"kind":"step","epoch":2,"step":20,"loss":0.1})"));
  EXPECT_EQ(scratch.read("metrics.csv"), header + "step,1,10,0.1,\nepoch,1,10,\nstep,2,20,0.1,\n");
}

TEST(MetricsWriter, TheRecordOfAnEpochThatIsStillOpenIsDropped) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  {
    MetricsWriter writer({.directory = directory, .tensorboard = false});
    writer.write(step_record(10));
    writer.write(epoch_record(0));  // step 10, and no checkpoint after it
  }
  const MetricsWriter again(
      {.directory = directory, .tensorboard = false, .resumed_step = 10, .epoch_is_open = true});
  EXPECT_THAT(lines_of(scratch, "metrics.jsonl"), ElementsAre(testing::HasSubstr("\"step\"")));
  EXPECT_EQ(lines_of(scratch, "metrics.csv").size(), 2U) << "the header and the step";
}

TEST(MetricsWriter, ALineThatACrashCutOffGoes) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  {
    MetricsWriter writer({.directory = directory, .tensorboard = false});
    writer.write(step_record(5));
    writer.write(step_record(10));
  }
  const std::string json = scratch.read("metrics.jsonl");
  const std::string csv = scratch.read("metrics.csv");
  scratch.write("metrics.jsonl", json + R"({"kind":"step","epoch":1,"step":1)");
  scratch.write("metrics.csv", csv + "step,1,1");
  const MetricsWriter again({.directory = directory, .tensorboard = false, .resumed_step = 10});
  EXPECT_EQ(scratch.read("metrics.jsonl"), json);
  EXPECT_EQ(scratch.read("metrics.csv"), csv);
}

TEST(MetricsWriter, DisabledFilesAreNotWritten) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  MetricsWriter writer(
      {.directory = directory, .jsonl = false, .csv = false, .tensorboard = false});
  writer.write(step_record(1));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

class FailingMetrics : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::open("ddp-test", log::Level::info); }
};

TEST_F(FailingMetrics, AFullDiskIsReportedOnceAndTheOthersGoOn) {
  const Scratch scratch;
  const OwnedDir directory = OwnedDir::require(scratch.path());
  MetricsWriter writer({.directory = directory, .tensorboard = false});
  // A line of metrics.jsonl takes 75 bytes, one of metrics.csv 33 after a header of 171: this limit
  // stops the former at its seventh line and the latter never.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{.rlim_cur = 480, .rlim_max = before.rlim_max};
  testing::internal::CaptureStderr();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  for (int i = 0; i < 8; ++i)
    writer.write(step_record(1));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("cannot write metrics.jsonl"));
  EXPECT_EQ(log.find("cannot write"), log.rfind("cannot write")) << log;
  EXPECT_THAT(lines_of(scratch, "metrics.csv"), SizeIs(1 + 8));
}

TEST_F(FailingMetrics, ADirectoryThatIsThereNoMoreDoesNotStopTraining) {
  const Scratch scratch;
  const OwnedDir gone = OwnedDir::require(scratch.path() / "gone");
  ASSERT_TRUE(gone.remove_self());
  testing::internal::CaptureStderr();
  MetricsWriter writer({.directory = gone});
  writer.write(step_record(1));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("metrics.jsonl"));
  EXPECT_THAT(log, HasSubstr("metrics.csv"));
  EXPECT_THAT(log, HasSubstr("TensorBoard"));
}

}  // namespace
}  // namespace ddp::worker
