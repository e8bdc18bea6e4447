// Which classes of a classification are taken for which, counted over an evaluation on the device.
#pragma once

#include <memory>

#include "worker/task/metric.h"
#include "worker/task/task.h"

namespace ddp::worker {

inline constexpr std::int64_t kMaxConfusedClasses = 1000;  // of more nothing is counted

/// Has no values, and class results. Scores that are not [B, classes] and labels that are not
/// classes are left out. Null for a task that is not a Classification.
std::unique_ptr<Metric> count_confusion(Task& task);

}  // namespace ddp::worker
