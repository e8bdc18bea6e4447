#include "common/progress/live_line.h"

#include "common/progress/node_line.h"

#include <gmock/gmock.h>

#include <limits>

namespace ddp::launcher {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

RankProgress training(int rank, std::int64_t step, std::int64_t samples) {
  RankProgress sample;
  sample.rank = rank;
  sample.has_page = true;
  sample.phase = Phase::training;
  sample.epoch = 2;
  sample.step = step;
  sample.steps_total = 940;
  sample.samples = samples;
  sample.loss = 0.21345;
  return sample;
}

RankProgress external(int rank, std::uint64_t output_bytes, bool alive = true) {
  RankProgress sample;
  sample.rank = rank;
  sample.alive = alive;
  sample.output_bytes = output_bytes;
  return sample;
}

using Samples = std::vector<RankProgress>;

/// As it is shown where there is room.
std::string text_of(LiveLine& line, seconds now, const Samples& samples) {
  return join(line.describe(now, now, samples));
}

TEST(LiveLine, NamesTheSlowestRankThatItIsTold) {
  LiveLine line({});
  Samples samples{training(0, 100, 100), training(1, 100, 100)};
  for (RankProgress& sample : samples)
    sample.spent.emplace();
  EXPECT_THAT(join(line.describe(seconds(1), seconds(1), samples, "slowest rank 1: data")),
              HasSubstr("slowest rank 1: data"));
  samples[1].in_collective = true;
  for (int i = 2; i < 40; ++i)
    EXPECT_THAT(text_of(line, seconds(i), samples), Not(HasSubstr("slowest")))
        << "the pages tell more than samples";
}

LiveLine::Rules on_nodes() {
  LiveLine::Rules rules;
  rules.has_other_nodes = true;
  return rules;
}

TEST(LiveLine, TellsHowTrainingGoes) {
  LiveLine::Rules rules;
  rules.epochs = 3;
  rules.round = 2;
  LiveLine line(rules);
  Samples samples{training(0, 100, 10000), training(1, 100, 10000), training(2, 99, 9900)};
  (void)text_of(line, seconds(100), samples);
  samples = {training(0, 120, 28428), training(1, 120, 28428), training(2, 118, 28000)};
  samples[0].lr = 0.05;
  EXPECT_EQ(text_of(line, seconds(102), samples),
            "epoch 2/3, step 120/940 (12%), loss 0.2135, lr 0.05, 9,214 images/s, 3,071 per rank, "
            "3 of 3 ranks, slowest rank 2 by 2 steps, ETA 1:22, round 2, elapsed 1:42");
}

TEST(LiveLine, ANarrowTerminalHasWhatMattersMost) {
  LiveLine line(LiveLine::Rules{.epochs = 10});
  std::vector<RankProgress> samples;
  for (int rank = 0; rank < 8; ++rank)
    samples.push_back(training(rank, 100, 100000));
  (void)text_of(line, seconds(10), samples);
  for (RankProgress& sample : samples) {
    sample.step = 132;
    sample.samples = 204800;
  }
  samples[5].step = 131;
  const std::vector<LinePart> parts = line.describe(seconds(18), seconds(18), samples);
  EXPECT_EQ(fit(parts, 99),
            "epoch 2/10, step 132/940 (14%), loss 0.2135, 13,100 images/s, slowest rank 5 by 1 "
            "step, ETA 3:22");
  EXPECT_EQ(fit(parts, 59), "step 132/940 (14%), loss 0.2135, 13,100 images/s, ETA 3:22");
  EXPECT_EQ(fit(parts, 39), "step 132/940 (14%), loss 0.2135");
}

TEST(LiveLine, TellsOfTheRankThatWaitsMostForDataAndOfTheOneThatHoldsMost) {
  LiveLine line(LiveLine::Rules{});
  Samples samples{training(0, 100, 0), training(1, 100, 0)};
  samples[1].data_wait_ns = 1'000'000'000;
  samples[1].device_bytes = 2'000'000'000;
  EXPECT_THAT(text_of(line, seconds(10), samples),
              AllOf(HasSubstr(", device memory 1.9 GiB"), Not(HasSubstr("wait"))));
  samples[0].data_wait_ns = 300'000'000;
  samples[1].data_wait_ns = 1'400'000'000;
  const std::vector<LinePart> parts = line.describe(seconds(12), seconds(12), samples);
  EXPECT_EQ(join(parts),
            "epoch 2, step 100/940 (10%), loss 0.2135, 2 of 2 ranks, data wait 20%, "
            "device memory 1.9 GiB, elapsed 0:12");
  // They go first where there is not enough room.
  EXPECT_EQ(fit(parts, 95),
            "epoch 2, step 100/940 (10%), loss 0.2135, 2 of 2 ranks, device memory 1.9 GiB, "
            "elapsed 0:12");
  EXPECT_EQ(fit(parts, 80), "epoch 2, step 100/940 (10%), loss 0.2135, 2 of 2 ranks, elapsed 0:12");
}

TEST(LiveLine, SingleRankShowsNoCountOfRanks) {
  LiveLine line(LiveLine::Rules{});
  EXPECT_EQ(text_of(line, seconds(1), {training(0, 7, 0)}),
            "epoch 2, step 7/940 (0%), loss 0.2135, elapsed 0:01");
  EXPECT_EQ(text_of(line, seconds(1), {training(0, 7, 0), training(1, 7, 0)}),
            "epoch 2, step 7/940 (0%), loss 0.2135, 2 of 2 ranks, elapsed 0:01");
}

TEST(LiveLine, ALossThatIsNotKnownYetIsNotShown) {
  LiveLine line(LiveLine::Rules{});
  Samples samples{training(0, 2, 0)};
  samples[0].loss.reset();
  EXPECT_EQ(text_of(line, seconds(1), samples), "epoch 2, step 2/940 (0%), elapsed 0:01");
  samples[0].loss = 0;
  EXPECT_THAT(text_of(line, seconds(1), samples), HasSubstr(", loss 0.0000,"));
}

TEST(LiveLine, TheLastEpochStaysTheLastOne) {
  LiveLine line(LiveLine::Rules{.epochs = 1});
  EXPECT_THAT(text_of(line, seconds(1), {training(0, 940, 0)}),
              HasSubstr("epoch 1/1, step 940/940 (100%)"));
}

TEST(LiveLine, TheRateIsThatOfTheLastSeconds) {
  LiveLine line(LiveLine::Rules{});
  std::string text;
  std::int64_t samples = 0;
  for (int second = 0; second < 60; ++second) {
    text = text_of(line, seconds(second), {training(0, second, samples)});
    samples += second < 30 ? 1000 : 50;  // it slows down
  }
  EXPECT_THAT(text, HasSubstr(", 50 images/s"));
  text = text_of(line, seconds(61), {training(0, 1, 100)});  // begun again
  EXPECT_THAT(text, Not(HasSubstr("images/s")));
  EXPECT_THAT(text, Not(HasSubstr("ETA")));
}

TEST(LiveLine, SlowestOfRanksInStepIsTheOneThatWaitsLeast) {
  LiveLine line(LiveLine::Rules{});
  std::string text;
  for (int second = 0; second < 30; ++second) {
    Samples samples{training(0, second, 0), training(1, second, 0), training(2, second, 0)};
    samples[0].in_collective = samples[2].in_collective = second % 2 == 0;
    text = text_of(line, seconds(second), samples);
    if (second == 5) {
      EXPECT_THAT(text, Not(HasSubstr("slowest"))) << "too few looks";
    }
  }
  EXPECT_THAT(text, HasSubstr("slowest rank 1, others wait 50%"));
  for (int second = 30; second < 130; ++second) {
    Samples samples{training(0, second, 0), training(1, second, 0), training(2, second, 0)};
    for (RankProgress& sample : samples)
      sample.in_collective = second % 2 == 0;
    text = text_of(line, seconds(second), samples);
  }
  EXPECT_THAT(text, Not(HasSubstr("slowest"))) << "all wait alike: for the network";
}

TEST(LiveLine, StepsOfEarlierRoundsAreNotItsWork) {
  LiveLine line(LiveLine::Rules{});
  RankProgress sample = training(0, 0, 0);
  for (const Phase phase : {Phase::starting, Phase::joining, Phase::loading}) {
    sample.phase = phase;
    (void)text_of(line, seconds(static_cast<int>(phase)), {sample});
  }
  sample = training(0, 500, 64000);  // resumed there, still loading
  sample.phase = Phase::loading;
  (void)text_of(line, seconds(10), {sample});
  std::string text;
  for (int second = 20; second < 30; ++second) {
    const int steps = second - 20;
    text = text_of(line, seconds(second), {training(0, 500 + steps, 64000 + 64 * steps)});
  }
  EXPECT_THAT(text, AllOf(HasSubstr(", 64 images/s"), HasSubstr("ETA 7:11")));
}

TEST(LiveLine, OtherPhasesAreNamed) {
  LiveLine line(LiveLine::Rules{});
  RankProgress sample = training(0, 0, 0);
  sample.phase = Phase::joining;
  sample.steps_total = 0;
  EXPECT_EQ(text_of(line, seconds(1), {sample, external(1, 0)}),
            "joining, 2 of 2 ranks, elapsed 0:01");
  sample = training(0, 940, 0);
  sample.phase = Phase::evaluating;
  EXPECT_EQ(text_of(line, seconds(1), {sample}),
            "evaluating, epoch 2, step 940/940 (100%), loss 0.2135, elapsed 0:01");
}

TEST(LiveLine, AProgramThatOnlyCountsItsStepsIsShownWithThem) {
  LiveLine line(LiveLine::Rules{});
  RankProgress sample = training(0, 1234, 0);
  sample.steps_total = 0;
  EXPECT_EQ(text_of(line, seconds(1), {sample}), "step 1,234, loss 0.2135, elapsed 0:01");
}

TEST(LiveLine, LossesHaveFourDecimals) {
  const std::vector<std::pair<double, std::string>> rows{
      {0.08624, "loss 0.0862,"},
      {2.302585, "loss 2.3026,"},
      {0, "loss 0.0000,"},
      {0.00001234, "loss 1.23e-05,"},
      {-1.5, "loss -1.5000,"},
      {1e20, "loss 1e+20,"},
      {std::numeric_limits<double>::quiet_NaN(), "loss nan,"},
      {std::numeric_limits<double>::infinity(), "loss inf,"},
  };
  for (const auto& [loss, text] : rows) {
    LiveLine line(LiveLine::Rules{});
    RankProgress sample = training(0, 5, 0);
    sample.loss = loss;
    EXPECT_THAT(text_of(line, seconds(1), {sample}), HasSubstr(text));
  }
}

TEST(LiveLine, OtherProgramsAreKnownByTheirOutput) {
  LiveLine line(on_nodes());
  EXPECT_EQ(text_of(line, seconds(100), {external(0, 0), external(1, 0)}),
            "2 of 2 ranks run, no output of rank 0 yet, elapsed 1:40");
  EXPECT_EQ(text_of(line, seconds(103), {external(0, 9), external(1, 5)}),
            "2 of 2 ranks run, 0 s since the last output of rank 0, elapsed 1:43");
  EXPECT_EQ(text_of(line, seconds(115), {external(0, 12), external(1, 5)}),
            "2 of 2 ranks run, 12 s since the last output of rank 1, elapsed 1:55");
  EXPECT_EQ(text_of(line, seconds(116), {external(0, 12), external(1, 5, false)}),
            "1 of 2 ranks run, 1 s since the last output of rank 0, elapsed 1:56");
  EXPECT_EQ(text_of(line, seconds(117), {external(0, 12, false), external(1, 5, false)}),
            "0 of 2 ranks run, elapsed 1:57");
}

TEST(LiveLine, OnOneNodeOtherProgramsAreToldOfOnATerminalAndWhenTheyAreQuiet) {
  const Samples two{external(0, 9), external(1, 5)};
  LiveLine line(LiveLine::Rules{});
  EXPECT_EQ(text_of(line, seconds(1), two), "");
  EXPECT_EQ(text_of(line, seconds(5), two), "");
  EXPECT_EQ(text_of(line, seconds(6), two),
            "2 of 2 ranks run, 5 s since the last output of rank 0, elapsed 0:06");
  EXPECT_EQ(text_of(line, seconds(7), {external(0, 9), external(1, 6)}), "");  // it prints again

  LiveLine alone(LiveLine::Rules{});
  LiveLine piped(LiveLine::Rules{.has_terminal = false});
  LiveLine plain(LiveLine::Rules{.progress = ProgressMode::plain, .has_terminal = false});
  for (const seconds now : {seconds(1), seconds(20)}) {
    EXPECT_EQ(text_of(alone, now, {external(0, 9)}), "");
    EXPECT_EQ(text_of(piped, now, two), "");
    EXPECT_NE(text_of(plain, now, two), "");
  }
}

TEST(LiveLine, NoRanksGiveNoLine) {
  LiveLine line(LiveLine::Rules{});
  EXPECT_EQ(text_of(line, seconds(1), {}), "");
}

TEST(LiveLine, TimesAreAsAClockShowsThem) {
  EXPECT_EQ(clock_text(seconds(0)), "0:00");
  EXPECT_EQ(clock_text(seconds(75)), "1:15");
  EXPECT_EQ(clock_text(seconds(3599)), "59:59");
  EXPECT_EQ(clock_text(seconds(3 * 3600 + 62)), "3:01:02");
  EXPECT_EQ(clock_text(seconds(51 * 3600 + 62)), "2d 03:01");
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
