// The labels of a detection set, drawn for people.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "worker/data/annotations.h"
#include "worker/data/source.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// All that Source::boxes() tells, image after image.
std::vector<AnnotatedBox> all_boxes(const Source& source);

/// How many objects each class has (of more than 100 classes, those with the most), and where in
/// their images boxes have their centres, and how large they are: the darker, the more, by the
/// logarithm.
Image draw_labels(std::span<const AnnotatedBox> boxes, const std::vector<std::string>& names);

}  // namespace ddp::worker
