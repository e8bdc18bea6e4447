#include "worker/train/run_pictures.h"

#include <string>
#include <utility>

#include "worker/data/sets/label_picture.h"
#include "worker/task/class_results.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kTrainBatches = 3;

Pictures labels_of(std::shared_ptr<const Source> train) {
  if (!train->facts().has_boxes) return {};
  return {{"labels", [train = std::move(train)] {
             return draw_labels(all_boxes(*train), train->facts().class_names);
           }}};
}

}  // namespace

void RunPictures::show_training(const Batch& batch, std::int64_t steps) {
  if (steps >= kTrainBatches) return;
  // Not earlier, so that a job that fails before its first step leaves no files.
  if (steps == 0) writer_.write(labels_of(train_));
  writer_.write(task_.pictures({.name = "train_batch" + std::to_string(steps),
                                .batch = batch,
                                .outputs = nullptr,
                                .data = train_->facts()}));
}

void RunPictures::show_evaluation(const Pass& first) {
  writer_.write(task_.pictures(
      {.name = "val_batch0", .batch = first.batch, .outputs = &first.outputs, .data = test_}));
}

void RunPictures::show_metrics(const Metrics& metrics, std::int64_t step) {
  for (const std::unique_ptr<Metric>& metric : metrics) {
    writer_.write(metric->pictures());
    const auto* const by_class = dynamic_cast<const HasClassResults*>(metric.get());
    if (by_class == nullptr) continue;
    ClassResults results = by_class->class_results();
    if (results.classes == 0) continue;
    writer_.write_text("classes.json",
                       [results = std::move(results), names = test_.class_names, step] {
                         return to_json(results, names, step);
                       });
  }
}

}  // namespace ddp::worker
