// How many samples an optimizer step takes, and how ranks and micro-steps share them.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/job/job_values.h"

namespace ddp {

/// Samples of one optimizer step, and how they are divided.
struct BatchPlan {
  std::int64_t micro_batch = 0;  // at most, of one micro-step
  std::int64_t accumulate = 1;
  std::int64_t global_batch = 0;  // of all ranks and micro-steps; their shares may differ by one
};

/// Errors: UsageError when data.batch is less than world_size * accumulate.
BatchPlan plan_batch(const JobValues& job, int world_size);

/// Whether the key is data.batch, data.batch_per_rank or train.accumulate, which all give the whole
/// batch.
bool is_about_batch(std::string_view path);

}  // namespace ddp
