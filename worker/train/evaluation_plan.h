// How a test set is evaluated: which samples each rank gets, in which batches, and how each image
// is prepared.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "common/progress/progress_page.h"
#include "worker/data/augment/augment.h"
#include "worker/data/source.h"
#include "worker/dist/group.h"
#include "worker/plan/job.h"

namespace ddp::worker {

struct EvaluationPlan {
  std::vector<std::vector<std::int64_t>> batches;  // of this rank
  std::vector<Augment> augments;
};

/// All ranks call it. Errors: UsageError; PeerError.
EvaluationPlan plan_evaluation(
    const Job& job, const Source& test, at::Device device, Group& group, ProgressPage& page);

}  // namespace ddp::worker
