// Pictures of what an evaluation of a detector has found, for people.
#pragma once

#include <string>
#include <vector>

#include "worker/image/image.h"
#include "worker/task/precision_curve.h"

namespace ddp::worker {

/// Precision over recall at IoU 0.50: each class that has objects, and their mean. The 20 classes
/// with the most objects have names and AP50; further classes are grey.
Image draw_precision_recall(const DetectionQuality& quality, const std::vector<std::string>& names);

/// F1 over confidence, drawn likewise, with each class's highest F1.
Image draw_f1(const DetectionQuality& quality, const std::vector<std::string>& names);

/// A row for each predicted class, a column for each true one, background last. A darker cell has a
/// larger share of its column; with up to 30 classes, counts are written into the cells.
Image draw_confusion(const DetectionQuality& quality, const std::vector<std::string>& names);

}  // namespace ddp::worker
