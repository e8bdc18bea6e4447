// Converts the first images of a batch and their objects from tensors on any device to values that
// the host can draw.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "worker/data/loading/batch.h"
#include "worker/image/labelled_grid.h"
#include "worker/task/metric.h"

namespace ddp::worker {

inline constexpr std::int64_t kShownImages = 16;

/// The first images, at most kShownImages. Shapes: `input` [B, C, H, W], as (pixel / 255 - mean) /
/// deviation if it is not bytes; `mean` and `deviation` [C] or empty. Empty for inputs that are not
/// images of one or three channels.
/// Blocks: until a GPU has computed `input`.
std::vector<Image> shown_images(const at::Tensor& input,
                                const std::vector<float>& mean,
                                const std::vector<float>& deviation);

/// The label of each of `images`, as a box around the whole image. Shapes: `labels` [B], or soft
/// labels [B, classes], of which the largest counts.
std::vector<LabelledObjects> shown_labels(const at::Tensor& labels,
                                          const std::vector<Image>& images,
                                          const std::vector<std::string>& names);

/// The objects of the first `count` images. Shapes: `target` as in AveragePrecision::update().
std::vector<LabelledObjects> shown_objects(const Target& target,
                                           std::size_t count,
                                           const std::vector<std::string>& names);

/// The objects predicted in the first `count` images, with their scores. Shapes: `outputs` as in
/// AveragePrecision::update().
std::vector<LabelledObjects> shown_predictions(const Outputs& outputs,
                                               std::size_t count,
                                               const std::vector<std::string>& names);

}  // namespace ddp::worker
