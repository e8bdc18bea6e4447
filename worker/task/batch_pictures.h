// The first images of a batch with their objects, from tensors of any device to what is drawn on
// the host.
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

/// At most kShownImages of them. Shapes: `input` [B, C, H, W], as (pixel / 255 - mean) / deviation
/// where it is not bytes; `mean` and `deviation` [C] or empty. None for inputs that are not images
/// of one or three channels.
/// Blocks: on a GPU, for it.
std::vector<Image> shown_images(const at::Tensor& input,
                                const std::vector<float>& mean,
                                const std::vector<float>& deviation);

/// The label of each of `images` around it. Shapes: `labels` [B], or [B, classes]: the largest
/// share counts.
std::vector<LabelledObjects> shown_labels(const at::Tensor& labels,
                                          const std::vector<Image>& images,
                                          const std::vector<std::string>& names);

/// The objects of the first `count` images. Shapes: `target` as of AveragePrecision::update().
std::vector<LabelledObjects> shown_objects(const Target& target,
                                           std::size_t count,
                                           const std::vector<std::string>& names);

/// What a prediction says of the first `count` images, with its score. Shapes: `outputs` as of
/// AveragePrecision::update().
std::vector<LabelledObjects> shown_answers(const Outputs& outputs,
                                           std::size_t count,
                                           const std::vector<std::string>& names);

}  // namespace ddp::worker
