#include "launcher/plan/live_line.h"

#include <gmock/gmock.h>

#include <limits>

namespace ddp::launcher {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

WorkerSample training(int rank, std::int64_t step, std::int64_t samples) {
  WorkerSample sample;
  sample.rank = rank;
  sample.has_page = true;
  sample.phase = Phase::training;
  sample.epoch = 1;
  sample.step = step;
  sample.steps_total = 940;
  sample.samples = samples;
  sample.loss = 0.21345;
  return sample;
}

WorkerSample external(int rank, std::uint64_t output_bytes, bool alive = true) {
  WorkerSample sample;
  sample.rank = rank;
  sample.alive = alive;
  sample.output_bytes = output_bytes;
  return sample;
}

using Samples = std::vector<WorkerSample>;

TEST(LiveLine, TellsHowTrainingGoes) {
  LiveLine line;
  (void)line.describe(
      seconds(100),
      Samples{training(0, 100, 10000), training(1, 100, 10000), training(2, 99, 9900)});
  EXPECT_EQ(line.describe(
                seconds(102),
                Samples{training(0, 120, 28428), training(1, 120, 28428), training(2, 118, 28000)}),
            "epoch 1, step 120 of 940, loss 0.213, 9,214 images/s, 3 of 3 ranks, slowest rank 2 "
            "(118)");
}

TEST(LiveLine, RanksInStepHaveNoSlowest) {
  LiveLine line;
  EXPECT_EQ(line.describe(seconds(1), Samples{training(0, 7, 0), training(1, 7, 0)}),
            "epoch 1, step 7 of 940, loss 0.213, 2 of 2 ranks");
}

TEST(LiveLine, TheRateIsThatOfTheLastSeconds) {
  LiveLine line;
  std::string text;
  std::int64_t samples = 0;
  for (int second = 0; second < 60; ++second) {
    text = line.describe(seconds(second), Samples{training(0, second, samples)});
    samples += second < 30 ? 1000 : 50;  // it slows down
  }
  EXPECT_THAT(text, HasSubstr(", 50 images/s"));
  text = line.describe(seconds(61), Samples{training(0, 1, 100)});  // begun anew
  EXPECT_THAT(text, Not(HasSubstr("images/s")));
}

TEST(LiveLine, OtherPhasesAreNamed) {
  LiveLine line;
  WorkerSample sample = training(0, 0, 0);
  sample.phase = Phase::joining;
  sample.steps_total = 0;
  EXPECT_EQ(line.describe(seconds(1), Samples{sample, external(1, 0)}), "joining, 2 of 2 ranks");
  sample = training(0, 940, 0);
  sample.phase = Phase::evaluating;
  EXPECT_EQ(line.describe(seconds(1), Samples{sample}),
            "evaluating, epoch 1, step 940 of 940, loss 0.213, 1 of 1 ranks");
}

TEST(LiveLine, AProgramThatOnlyCountsItsStepsIsShownWithThem) {
  LiveLine line;
  WorkerSample sample = training(0, 1234, 0);
  sample.steps_total = 0;
  EXPECT_EQ(line.describe(seconds(1), Samples{sample}), "step 1,234, loss 0.213, 1 of 1 ranks");
}

TEST(LiveLine, ALossThatIsNoNumberIsShownAsSuch) {
  LiveLine line;
  WorkerSample sample = training(0, 5, 0);
  sample.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(line.describe(seconds(1), Samples{sample}), HasSubstr("loss nan"));
}

TEST(LiveLine, OtherProgramsAreKnownByTheirOutput) {
  LiveLine line;
  EXPECT_EQ(line.describe(seconds(100), Samples{external(0, 0), external(1, 0)}),
            "2 of 2 ranks run, no output of rank 0 yet");
  EXPECT_EQ(line.describe(seconds(103), Samples{external(0, 9), external(1, 5)}),
            "2 of 2 ranks run, 0 s since the last output of rank 0");
  EXPECT_EQ(line.describe(seconds(115), Samples{external(0, 12), external(1, 5)}),
            "2 of 2 ranks run, 12 s since the last output of rank 1");
  EXPECT_EQ(line.describe(seconds(116), Samples{external(0, 12), external(1, 5, false)}),
            "1 of 2 ranks run, 1 s since the last output of rank 0");
  EXPECT_EQ(line.describe(seconds(117), Samples{external(0, 12, false), external(1, 5, false)}),
            "0 of 2 ranks run");
}

TEST(LiveLine, NothingToTellIsNoLine) {
  EXPECT_EQ(LiveLine().describe(seconds(1), Samples{}), "");
}

TEST(LiveLine, ANodeSaysWhatItRunsAndWhereItsLogsAre) {
  EXPECT_EQ(describe_node({1, "b", 2, {"cpu", "cpu"}, "runs/mnist/logs/round-0"}),
            "node 1 (b): ranks 2-3, device cpu, logs runs/mnist/logs/round-0");
  EXPECT_EQ(describe_node({0, "a", 0, {"cuda:0"}, ""}), "node 0 (a): rank 0, device cuda:0");
  EXPECT_EQ(describe_node({0, "a", 0, {"cuda:0", "cuda:1"}, ""}),
            "node 0 (a): ranks 0-1, devices cuda:0 cuda:1");
}

}  // namespace
}  // namespace ddp::launcher
