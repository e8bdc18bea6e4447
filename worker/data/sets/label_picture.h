// The labels of a detection set, drawn for people.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "worker/data/annotations.h"
#include "worker/data/source.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// The boxes of all images that Source::boxes() knows, image after image.
std::vector<AnnotatedBox> all_boxes(const Source& source);

/// Draws how many objects each class has (of more than 100 classes, those with the most), where
/// boxes have their centres, and how large boxes are. Darker means more, on a logarithmic scale.
Image draw_labels(std::span<const AnnotatedBox> boxes, const std::vector<std::string>& names);

}  // namespace ddp::worker
