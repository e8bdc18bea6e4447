// What an evaluation of a detector has found, drawn for people.
#pragma once

#include <string>
#include <vector>

#include "worker/image/image.h"
#include "worker/task/precision_curve.h"

namespace ddp::worker {

/// Precision over recall at IoU 0.50: each class that has objects, and their mean. Names and AP50
/// are there for the 20 classes with the most objects; where there are more, the others are grey.
Image draw_precision_recall(const DetectionQuality& quality, const std::vector<std::string>& names);

/// F1 over confidence, likewise, with each class' highest F1.
Image draw_f1(const DetectionQuality& quality, const std::vector<std::string>& names);

/// A row for each predicted class, a column for each true one, background last. The darker a cell,
/// the larger its share of the column; counts are written into the cells of up to 30 classes.
Image draw_confusion(const DetectionQuality& quality, const std::vector<std::string>& names);

}  // namespace ddp::worker
