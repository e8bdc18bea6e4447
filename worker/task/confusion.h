// Which classes of a classification are taken for which others, counted on the device during an
// evaluation.
#pragma once

#include <memory>

#include "worker/task/metric.h"
#include "worker/task/task.h"

namespace ddp::worker {

inline constexpr std::int64_t kMaxConfusedClasses = 1000;  // with more classes nothing is counted

/// A metric without values, but with class results. Leaves out scores that are not [B, classes] and
/// labels that are not classes. Null for a task that is not a Classification.
std::unique_ptr<Metric> count_confusion(Task& task);

}  // namespace ddp::worker
