// The ground truth of one image for an evaluation: boxes, areas and crowds, in pixels of its file.
// These are extra targets after target 0, whose boxes exclude crowds and move with the image.
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/data/annotations.h"
#include "worker/data/sample.h"

namespace ddp::worker {

/// Indices of these targets in a sample. A row is class, left, top, right, bottom, area and crowd
/// (1 or 0), of float32; height and width of the file are one int64 each.
inline constexpr std::size_t kGroundTruthRows = 1;
inline constexpr std::size_t kFileHeight = 2;
inline constexpr std::size_t kFileWidth = 3;
inline constexpr std::size_t kGroundTruthTargets = 4;  // with the boxes
inline constexpr std::int64_t kGroundTruthRow = 7;

/// Adds these targets to a sample that has only its boxes, and its image as it was read. The area
/// is that of the outline if the labels have it, else of the box.
/// Shapes: the input is [channels, height, width]; rows [boxes and crowds, kGroundTruthRow].
void add_ground_truth(const AnnotatedImage& image, Sample& sample);

}  // namespace ddp::worker
