#include "worker/train/console.h"

#include <fmt/format.h>

namespace ddp::worker {

std::string rank_table(const std::vector<std::string>& ranks) {
  std::string text;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    text += fmt::format("rank {} of {}: {}\n", rank, ranks.size(), ranks[rank]);
  }
  return text;
}

std::string batch_line(const BatchPlan& batch, int world_size) {
  return fmt::format("batch: {} per rank x {} {} x {} accumulate = {}",
                     batch.per_rank,
                     world_size,
                     world_size == 1 ? "rank" : "ranks",
                     batch.accumulate,
                     batch.whole);
}

std::string epoch_line(const EpochRecord& record, std::int64_t epochs) {
  std::string text = fmt::format("epoch {}/{} | train loss {:.4f} accuracy {:.2f} %",
                                 record.epoch + 1,
                                 epochs,
                                 record.train_loss,
                                 100 * record.train_accuracy);
  if (record.test_loss && record.test_accuracy) {
    text += fmt::format(
        " | test loss {:.4f} accuracy {:.2f} %", *record.test_loss, 100 * *record.test_accuracy);
  }
  return text + fmt::format(" | {:.0f} images/s | {:.1f} s", record.images_per_s, record.seconds);
}

std::string figures_line(const DdpFigures& figures) {
  return fmt::format(
      "per step: forward {:.1f} ms, backward {:.1f} ms, communication {:.1f} ms ({:.1f} ms of it "
      "during backward)",
      figures.forward,
      figures.backward,
      figures.communication,
      figures.overlap);
}

std::string final_table(const std::vector<EpochRecord>& records) {
  std::string text = fmt::format("{:>5}  {:>10}  {:>14}  {:>9}  {:>13}  {:>8}\n",
                                 "epoch",
                                 "train loss",
                                 "train accuracy",
                                 "test loss",
                                 "test accuracy",
                                 "images/s");
  for (const EpochRecord& record : records) {
    const std::string test_loss = record.test_loss ? fmt::format("{:.4f}", *record.test_loss) : "-";
    const std::string test_accuracy =
        record.test_accuracy ? fmt::format("{:.2f} %", 100 * *record.test_accuracy) : "-";
    text += fmt::format("{:>5}  {:>10.4f}  {:>12.2f} %  {:>9}  {:>13}  {:>8.0f}\n",
                        record.epoch + 1,
                        record.train_loss,
                        100 * record.train_accuracy,
                        test_loss,
                        test_accuracy,
                        record.images_per_s);
  }
  return text;
}

}  // namespace ddp::worker
