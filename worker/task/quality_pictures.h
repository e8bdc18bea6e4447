// Draws the results of a detector's evaluation.
#pragma once

#include <string>
#include <vector>

#include "worker/image/image.h"
#include "worker/task/precision_curve.h"

namespace ddp::worker {

/// Precision over recall at IoU 0.50, for each class that has objects, and their mean. The legend
/// has names and AP50 of the 20 classes with the most objects; further classes are grey.
Image draw_precision_recall(const DetectionQuality& quality, const std::vector<std::string>& names);

/// F1 over confidence, drawn likewise, with each class's highest F1.
Image draw_f1(const DetectionQuality& quality, const std::vector<std::string>& names);

/// A row for each predicted class, a column for each true one, background last. A darker cell has a
/// larger fraction of its column; with up to 30 classes, cells show their counts.
Image draw_confusion(const DetectionQuality& quality, const std::vector<std::string>& names);

}  // namespace ddp::worker
