// Computes how often each training sample is drawn, from data.sampler and the classes of the data.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/data/source.h"
#include "worker/plan/job.h"
#include "worker/plan/sample_weights.h"

namespace ddp::worker {

/// Weights for the first `size` samples of `data`. Null: each sample once. Errors: UsageError for
/// data without classes, and for a class that does not exist.
std::shared_ptr<const SampleWeights> make_sample_weights(const DataJob& job,
                                                         const Source& data,
                                                         std::int64_t size);

}  // namespace ddp::worker
