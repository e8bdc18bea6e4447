#include "worker/task/average_precision.h"

#include <ATen/core/grad_mode.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "common/error.h"
#include "worker/data/sample.h"
#include "worker/data/sample_image.h"
#include "worker/task/quality_pictures.h"
#include "worker/task/suppression.h"

namespace ddp::worker {
namespace {

/// By image, the lowest rank that has it.
using Owners = std::unordered_map<std::int64_t, std::size_t>;

std::string shape_of(const at::Tensor& tensor) {
  return tensor.defined() ? "[" + shape_text({tensor.sizes().data(), tensor.sizes().size()}) + "]"
                          : "nothing";
}

void require_batch(const Outputs& outputs, const Batch& batch, std::size_t classes) {
  const auto images = static_cast<std::int64_t>(batch.indices.size());
  const auto fail = [](const std::string& what) { throw UsageError("average precision: " + what); };
  if (outputs.size() < 2)
    fail("the task gives " + std::to_string(outputs.size()) +
         " outputs. It needs two: boxes of [images, boxes, 4] and scores of [images, boxes, "
         "classes].");
  if (outputs[1].dim() != 3 || outputs[1].size(0) != images ||
      outputs[1].size(2) != static_cast<std::int64_t>(classes))
    fail("scores are " + shape_of(outputs[1]) + ". They must be of " + std::to_string(images) +
         " images and " + std::to_string(classes) + " classes: [images, boxes, classes].");
  const Target target = batch.targets.empty() ? Target{} : batch.targets[0];
  if (!target.values.defined() || target.values.dim() != 2 || target.values.size(1) != kBoxRow ||
      !target.rows.defined() || target.rows.numel() != images ||
      target.rows.sum().item<std::int64_t>() != target.values.size(0))
    fail("targets are " + shape_of(target.values) + ", rows of " + shape_of(target.rows) +
         " images. They must be objects of [objects, 5]: class, left, top, right, bottom.");
}

std::vector<Detection> read_detections(const at::Tensor& rows, ImageSize image) {
  std::vector<Detection> detections;
  const auto width = static_cast<float>(image.width);
  const auto height = static_cast<float>(image.height);
  const float* row = rows.const_data_ptr<float>();
  for (std::int64_t i = 0; i < rows.size(0); ++i, row += rows.size(1)) {
    const Box box{.left = std::clamp(row[0], 0.0F, width),
                  .top = std::clamp(row[1], 0.0F, height),
                  .right = std::clamp(row[2], 0.0F, width),
                  .bottom = std::clamp(row[3], 0.0F, height)};
    detections.push_back({box, row[4], static_cast<int>(row[5])});
  }
  return detections;
}

std::vector<GroundTruth> read_objects(const at::Tensor& rows, std::int64_t image, int classes) {
  std::vector<GroundTruth> objects;
  const float* row = rows.const_data_ptr<float>();
  for (std::int64_t i = 0; i < rows.size(0); ++i, row += kBoxRow) {
    if (!(row[0] >= 0 && row[0] < static_cast<float>(classes)))
      throw UsageError("average precision: sample " + std::to_string(image) +
                       " has an object of class " + std::to_string(row[0]) + ", and there are " +
                       std::to_string(classes) + " classes, from 0. Mend its label.");
    const Box box{row[1], row[2], row[3], row[4]};
    const double width = static_cast<double>(box.right) - box.left;
    const double height = static_cast<double>(box.bottom) - box.top;
    objects.push_back({static_cast<int>(row[0]), box, width * height, false});
  }
  return objects;
}

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

/// Of each image those of its owner, in the order of images, and of an image in their own.
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
  const Suppressed found = suppress(outputs[0], outputs[1], evaluation_suppression());
  const at::Tensor objects = batch.targets[0].values.to(at::kCPU, at::kFloat).contiguous();
  const at::Tensor rows = batch.targets[0].rows.to(at::kCPU, at::kLong).contiguous();
  std::int64_t first = 0;
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    const std::int64_t count = rows.const_data_ptr<std::int64_t>()[i];
    add_image(batch.indices[i], found.detections[i], objects.narrow(0, first, count));
    first += count;
  }
}

void AveragePrecision::add_image(std::int64_t image,
                                 const at::Tensor& detections,
                                 const at::Tensor& objects) {
  const auto classes = static_cast<int>(names_.size());
  const std::vector<GroundTruth> truths = read_objects(objects, image, classes);
  if (!is_seen_.insert(image).second) return;
  images_.push_back(image);
  const ImageMatches matches =
      match_boxes(image, truths, read_detections(detections, image_), classes);
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

Pictures AveragePrecision::pictures() const {
  // Shared by what draws: this one is gone by then.
  const auto found = std::make_shared<const std::pair<DetectionQuality, std::vector<std::string>>>(
      quality_, names_);
  return {{"PR_curve", [found] { return draw_precision_recall(found->first, found->second); }},
          {"F1_curve", [found] { return draw_f1(found->first, found->second); }},
          {"confusion_matrix", [found] { return draw_confusion(found->first, found->second); }}};
}

}  // namespace ddp::worker
