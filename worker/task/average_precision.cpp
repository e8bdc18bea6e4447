#include "worker/task/average_precision.h"

#include <ATen/core/grad_mode.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "common/error.h"
#include "worker/data/augment/sample_image.h"
#include "worker/data/sample.h"
#include "worker/data/sets/ground_truth.h"
#include "worker/image/letterbox.h"
#include "worker/model/named_tensor.h"
#include "worker/task/quality_pictures.h"
#include "worker/task/suppression.h"

namespace ddp::worker {
namespace {

/// For each image, the lowest rank that has it.
using Owners = std::unordered_map<std::int64_t, std::size_t>;

void require_batch(const Outputs& outputs, const Batch& batch, std::size_t classes) {
  const auto images = static_cast<std::int64_t>(batch.indices.size());
  const auto fail = [](const std::string& what) { throw UsageError("average precision: " + what); };
  if (outputs.size() < 2)
    fail("the task gives " + std::to_string(outputs.size()) +
         " outputs. It needs two: boxes of [images, boxes, 4] and scores of [images, boxes, "
         "classes].");
  if (outputs[1].dim() != 3 || outputs[1].size(0) != images ||
      outputs[1].size(2) != static_cast<std::int64_t>(classes))
    fail("scores are " + shape_text(outputs[1]) + ". They must be of " + std::to_string(images) +
         " images and " + std::to_string(classes) + " classes: [images, boxes, classes].");
  const Target target = batch.targets.empty() ? Target{} : batch.targets[0];
  if (!target.values.defined() || target.values.dim() != 2 || target.values.size(1) != kBoxRow ||
      !target.rows.defined() || target.rows.numel() != images ||
      target.rows.sum().item<std::int64_t>() != target.values.size(0))
    fail("targets are " + shape_text(target.values) + ", rows of " + shape_text(target.rows) +
         " images. They must be objects of [objects, 5]: class, left, top, right, bottom.");
}

/// As clip(), but boxes that become empty are kept.
Box clamp_box(const Box& box, ImageSize image) {
  const auto width = static_cast<float>(image.width);
  const auto height = static_cast<float>(image.height);
  return {.left = std::clamp(box.left, 0.0F, width),
          .top = std::clamp(box.top, 0.0F, height),
          .right = std::clamp(box.right, 0.0F, width),
          .bottom = std::clamp(box.bottom, 0.0F, height)};
}

Box box_of(const float* sides) {
  return {sides[0], sides[1], sides[2], sides[3]};
}

/// The detections in `rows` [n, 6] of suppress(), with boxes mapped by `place`; one without a box
/// is left out.
template <typename Place>
std::vector<Detection> read_detections(const at::Tensor& rows, Place place) {
  std::vector<Detection> detections;
  const float* row = rows.const_data_ptr<float>();
  for (std::int64_t i = 0; i < rows.size(0); ++i, row += rows.size(1)) {
    const std::optional<Box> box = place(box_of(row));
    if (box) detections.push_back({*box, row[4], static_cast<int>(row[5])});
  }
  return detections;
}

/// Reads rows of boxes (kBoxRow) or of ground truth (kGroundTruthRow).
std::vector<GroundTruth> read_ground_truth(const at::Tensor& rows,
                                           std::int64_t image,
                                           int classes) {
  std::vector<GroundTruth> truths;
  const float* row = rows.const_data_ptr<float>();
  for (std::int64_t i = 0; i < rows.size(0); ++i, row += rows.size(1)) {
    if (!(row[0] >= 0 && row[0] < static_cast<float>(classes)))
      throw UsageError("average precision: sample " + std::to_string(image) +
                       " has an object of class " + std::to_string(row[0]) + ", and there are " +
                       std::to_string(classes) + " classes, from 0. Mend its label.");
    GroundTruth truth{.label = static_cast<int>(row[0]), .box = box_of(row + 1)};
    truth.area = (static_cast<double>(truth.box.right) - truth.box.left) *
                 (static_cast<double>(truth.box.bottom) - truth.box.top);
    if (rows.size(1) == kGroundTruthRow) {
      truth.area = row[kBoxRow];
      truth.is_crowd = row[kBoxRow + 1] > 0;
    }
    truths.push_back(truth);
  }
  return truths;
}

/// No value if the input is not images.
std::optional<ImageSize> input_size(const Batch& batch) {
  if (batch.input.dim() != 4) return {};
  return ImageSize{static_cast<int>(batch.input.size(2)), static_cast<int>(batch.input.size(3))};
}

bool has_ground_truth(const Batch& batch) {
  if (batch.targets.size() != kGroundTruthTargets || batch.input.dim() != 4) return false;
  const Target& rows = batch.targets[kGroundTruthRows];
  return rows.values.dim() == 2 && rows.values.size(1) == kGroundTruthRow && rows.rows.defined();
}

/// The ground truth of a batch's images, on the host.
class BatchTruths {
 public:
  explicit BatchTruths(const Batch& batch)
      : has_truths_(has_ground_truth(batch)),
        values_(target(batch).values.to(at::kCPU, at::kFloat).contiguous()),
        rows_(target(batch).rows.to(at::kCPU, at::kLong).contiguous()) {
    if (!has_truths_) return;
    input_ = input_size(batch).value();
    heights_ = batch.targets[kFileHeight].values.to(at::kCPU, at::kLong).contiguous();
    widths_ = batch.targets[kFileWidth].values.to(at::kCPU, at::kLong).contiguous();
  }

  /// The rows of the next image.
  at::Tensor take_rows() {
    const std::int64_t count = number(rows_, image_++);
    first_ += count;
    return values_.narrow(0, first_ - count, count);
  }

  /// How an image fits into the model's input; no value: its boxes are in pixels of that input.
  [[nodiscard]] std::optional<Letterbox> letterbox(std::size_t image) const {
    if (!has_truths_) return {};
    const ImageSize file{static_cast<int>(number(heights_, image)),
                         static_cast<int>(number(widths_, image))};
    return fit_letterbox(file, input_);
  }

 private:
  [[nodiscard]] const Target& target(const Batch& batch) const {
    return batch.targets[has_truths_ ? kGroundTruthRows : 0];
  }
  static std::int64_t number(const at::Tensor& numbers, std::size_t place) {
    return numbers.const_data_ptr<std::int64_t>()[place];
  }

  bool has_truths_;
  at::Tensor values_;  // [n, kBoxRow or kGroundTruthRow]
  at::Tensor rows_;    // [B]
  ImageSize input_;
  at::Tensor heights_;  // [B]
  at::Tensor widths_;   // [B]
  std::size_t image_ = 0;
  std::int64_t first_ = 0;  // row of the next image
};

template <typename Record>
void append(std::vector<Record>& to, const std::vector<Record>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// The lists of all ranks, by rank.
template <typename Record>
std::vector<std::vector<Record>> gather_records(Group& group, const std::vector<Record>& mine) {
  static_assert(std::is_trivially_copyable_v<Record>);
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(Record));
  const at::Tensor rows = at::empty({static_cast<std::int64_t>(mine.size()), kSize}, at::kByte);
  if (!mine.empty()) std::memcpy(rows.data_ptr(), mine.data(), mine.size() * sizeof(Record));
  std::vector<std::vector<Record>> all;
  for (const at::Tensor& one : gather_rows(group, rows)) {
    const at::Tensor bytes = one.contiguous();
    std::vector<Record>& records = all.emplace_back(static_cast<std::size_t>(bytes.size(0)));
    if (!records.empty())
      std::memcpy(records.data(), bytes.data_ptr(), records.size() * sizeof(Record));
  }
  return all;
}

/// For each image the records of its owner, in the order of images, and within an image in their
/// own.
template <typename Record>
std::vector<Record> merge_records(Group& group,
                                  const std::vector<Record>& mine,
                                  const Owners& owners) {
  std::vector<Record> merged;
  const std::vector<std::vector<Record>> all = gather_records(group, mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    std::ranges::copy_if(all[rank], std::back_inserter(merged), [&](const Record& one) {
      return owners.at(one.image) == rank;
    });
  std::ranges::stable_sort(merged, {}, &Record::image);
  return merged;
}

}  // namespace

AveragePrecision::AveragePrecision(std::vector<std::string> names, ImageSize image)
    : names_(std::move(names)), image_(image) {}

void AveragePrecision::update(const Outputs& outputs, const Batch& batch) {
  require_batch(outputs, batch, names_.size());
  const auto classes = static_cast<int>(names_.size());
  const Suppressed found = suppress(outputs[0], outputs[1], evaluation_suppression());
  const ImageSize input = input_size(batch).value_or(image_);
  BatchTruths all(batch);
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    const std::vector<GroundTruth> truths =
        read_ground_truth(all.take_rows(), batch.indices[i], classes);
    const std::optional<Letterbox> letterbox = all.letterbox(i);
    const auto place = [&](const Box& box) -> std::optional<Box> {
      return letterbox ? box_in_image(box, *letterbox) : clamp_box(box, input);
    };
    add_image(batch.indices[i], truths, read_detections(found.detections[i], place));
  }
}

void AveragePrecision::add_image(std::int64_t image,
                                 const std::vector<GroundTruth>& truths,
                                 const std::vector<Detection>& detections) {
  if (!seen_.insert(image).second) return;
  images_.push_back(image);
  const ImageMatches matches =
      match_boxes(image, truths, detections, static_cast<int>(names_.size()));
  append(matches_.detections, matches.detections);
  append(matches_.truths, matches.truths);
  append(matches_.confused, matches.confused);
}

void AveragePrecision::merge(Group& group) {
  Owners owners;
  const std::vector<std::vector<std::int64_t>> images = gather_records(group, images_);
  for (std::size_t rank = 0; rank < images.size(); ++rank)
    for (const std::int64_t image : images[rank])
      owners.try_emplace(image, rank);
  quality_ = measure_detections(merge_records(group, matches_.detections, owners),
                                merge_records(group, matches_.truths, owners),
                                merge_records(group, matches_.confused, owners),
                                static_cast<int>(names_.size()));
}

NamedValues AveragePrecision::values() const {
  return {{"precision", quality_.precision},
          {"recall", quality_.recall},
          {"F1", quality_.f1},
          {"AP50", quality_.mean_ap_at(kIou50)},
          {"AP75", quality_.mean_ap_at(kIou75)},
          {"AP50:95", quality_.mean_ap()},
          {"AP_small", quality_.mean_ap(AreaRange::small)},
          {"AP_medium", quality_.mean_ap(AreaRange::medium)},
          {"AP_large", quality_.mean_ap(AreaRange::large)}};
}

ClassResults AveragePrecision::class_results() const {
  constexpr std::size_t kMaxClasses = 999;  // with background, as many as the page shows in pairs
  ClassResults results;
  if (quality_.classes.empty() || quality_.classes.size() > kMaxClasses) return results;
  results.classes = std::ssize(quality_.classes);
  results.has_background = true;
  const std::size_t side = quality_.classes.size() + 1;
  results.counts.resize(side * side);
  for (std::size_t truth = 0; truth < side; ++truth)
    for (std::size_t predicted = 0; predicted < side; ++predicted)
      results.counts[truth * side + predicted] = quality_.confusion[predicted * side + truth];
  std::vector<double> ap50;
  std::vector<double> ap;
  std::vector<double> f1;
  for (const ClassQuality& one : quality_.classes) {
    ap50.push_back(one.ap[0][kIou50]);
    ap.push_back(one.mean_ap());
    f1.push_back(one.f1);
  }
  results.numbers = {{"AP50", std::move(ap50)}, {"AP50:95", std::move(ap)}, {"F1", std::move(f1)}};
  return results;
}

Pictures AveragePrecision::pictures() const {
  // Shared with the drawing functions, which outlive this metric.
  const auto found = std::make_shared<const std::pair<DetectionQuality, std::vector<std::string>>>(
      quality_, names_);
  return {{"PR_curve", [found] { return draw_precision_recall(found->first, found->second); }},
          {"F1_curve", [found] { return draw_f1(found->first, found->second); }},
          {"confusion_matrix", [found] { return draw_confusion(found->first, found->second); }}};
}

}  // namespace ddp::worker
