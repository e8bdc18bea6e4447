// The confusion matrix of a classification, counted on the device during an evaluation.
#pragma once

#include <memory>

#include "worker/task/metric.h"
#include "worker/task/task.h"

namespace ddp::worker {

inline constexpr std::int64_t kMaxConfusedClasses = 1000;  // more classes: no matrix

/// A metric without values, but with class results. Ignores scores that are not [B, classes] and
/// labels that are not classes. Null for a task that is not a Classification.
std::unique_ptr<Metric> make_confusion_counter(Task& task);

}  // namespace ddp::worker
