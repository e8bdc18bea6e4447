#include "worker/task/detection.h"

#include <ATen/ATen.h>

#include <utility>

#include "worker/task/anchor_points.h"
#include "worker/task/average_precision.h"
#include "worker/task/batch_pictures.h"
#include "worker/task/multi_scale.h"

namespace ddp::worker {

ObjectDetection::ObjectDetection(std::shared_ptr<Detector> model,
                                 const DetectionLossOptions& options,
                                 std::vector<std::string> names,
                                 ImageSize image,
                                 double multi_scale)
    : model_(std::move(model)),
      options_(options),
      names_(std::move(names)),
      image_(image),
      multi_scale_(multi_scale) {}

Batch ObjectDetection::transform_batch(const Batch& batch, std::uint64_t seed) {
  if (multi_scale_ <= 0) return batch;
  const ImageSize size{static_cast<int>(batch.input.size(2)),
                       static_cast<int>(batch.input.size(3))};
  return resize_batch(batch, draw_scale(size, multi_scale_, Detector::kStrides.back(), seed));
}

Outputs ObjectDetection::forward(const Batch& batch) {
  const at::Tensor& images = batch.input;  // [B, C, H, W]
  const at::Tensor raw = model_->forward(images);
  if (model_->is_training()) return {raw};
  // In 16 bits, boxes of 640 pixels would be off by one or two.
  const at::Tensor wide = raw.scalar_type() == at::kDouble ? raw : raw.to(at::kFloat);
  const AnchorPoints& points = points_of(images, wide);
  const at::Tensor boxes = make_boxes(
      decode_distances(wide.narrow(2, 0, Detector::kDistances)), points.centers, points.strides);
  return {boxes, wide.narrow(2, Detector::kDistances, model_->classes()).sigmoid(), raw};
}

Loss ObjectDetection::loss(const Outputs& outputs, const Batch& batch) {
  const at::Tensor& raw = outputs.back();
  return detection_loss(raw, objects_of(batch), points_of(batch.input, raw), options_);
}

const AnchorPoints& ObjectDetection::points_of(const at::Tensor& images, const at::Tensor& like) {
  const ImageSize size{static_cast<int>(images.size(2)), static_cast<int>(images.size(3))};
  const at::Tensor& centers = points_.centers;
  const bool fits = centers.defined() && size == points_size_ &&
                    centers.device() == like.device() &&
                    centers.scalar_type() == like.scalar_type();
  if (!fits) points_ = make_anchor_points(images.size(2), images.size(3), like);
  points_size_ = size;
  return points_;
}

std::unique_ptr<Metric> ObjectDetection::metric() {
  return std::make_unique<AveragePrecision>(names_, image_);
}

Pictures ObjectDetection::pictures(const ShownBatch& shown) {
  const auto images = std::make_shared<const std::vector<Image>>(
      shown_images(shown.batch.input, shown.data.mean, shown.data.standard_deviation));
  if (images->empty()) return {};
  const auto picture = [&](const std::string& name, std::vector<LabelledObjects> objects) {
    return Picture{name, [images, objects = std::move(objects)] {
                     return draw_labelled_grid(*images, objects);
                   }};
  };
  const bool has_answers = shown.outputs != nullptr;
  Pictures pictures{picture(shown.name + (has_answers ? "_labels" : ""),
                            shown_objects(shown.batch.targets.at(0), images->size(), names_))};
  if (has_answers)
    pictures.push_back(
        picture(shown.name + "_pred", shown_predictions(*shown.outputs, images->size(), names_)));
  return pictures;
}

}  // namespace ddp::worker
