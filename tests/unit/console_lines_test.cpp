#include "worker/train/console_lines.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

namespace ddp::worker {
namespace {

using ::testing::HasSubstr;

TEST(ConsoleLines, TheBatchIsAnEquation) {
  EXPECT_EQ(batch_line({64, 2, 256}, 2, 2), "batch: 64 per rank x 2 ranks x 2 accumulate = 256");
  EXPECT_EQ(batch_line({64, 4, 256}, 1, 4),
            "batch: 64 per rank x 1 rank x 4 accumulate = 256, as this run began with 4 ranks: its "
            "batch and rates stay");
}

TEST(ConsoleLines, ALineOfAnEpochLeavesOutWhatWouldMakeItWrap) {
  EpochRecord record;
  record.train = {{"loss", 0.5}, {"accuracy", 0.9}, {"loss/box", 1}};
  record.test = {{"loss", 0.25}, {"accuracy", 0.975}};
  record.images_per_s = 7390;
  record.seconds = 1.6;
  record.data_wait = 0.009;
  const std::string head =
      "epoch 1/3 | train loss 0.5000 accuracy 90.00 % | test loss 0.2500 accuracy 97.50 %";
  EXPECT_EQ(epoch_line(record, 3), head + " | 7390 images/s | 1.6 s, data wait 0.9 %");
  EXPECT_EQ(epoch_line(record, 3, 200), epoch_line(record, 3));
  EXPECT_EQ(epoch_line(record, 3, 110), head + " | 7390 images/s | 1.6 s");
  EXPECT_EQ(epoch_line(record, 3, 94), head + " | 1.6 s");
  EXPECT_EQ(epoch_line(record, 3, 60), head) << "what was measured stays";
}

TEST(ConsoleLines, ATableHasARowPerEpoch) {
  EpochRecord record;
  record.train = {{"loss", 0.5}, {"accuracy", 0.9}};
  EpochRecord evaluated = record;
  evaluated.epoch = 1;
  evaluated.test = {{"loss", 0.25}, {"accuracy", 0.975}};
  const std::string table = final_table({record, evaluated});
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
  EXPECT_THAT(table, HasSubstr("97.50 %"));
}

}  // namespace
}  // namespace ddp::worker
