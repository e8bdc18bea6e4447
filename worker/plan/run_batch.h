// The whole batch belongs to the run, not to the ranks: the first round computes it from the job,
// and later rounds divide it among as many ranks as there are. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/job/batch_plan.h"

namespace ddp::worker {

/// The batch that the first round of a run began with.
struct RunBatch {
  std::int64_t global_batch = 0;  // samples of an optimizer step
  std::int64_t micro_batch = 0;   // of a micro-step, at most: so many fitted into memory
  int world_size = 1;             // optimizer.scale_lr uses it

  bool operator==(const RunBatch&) const = default;
};

/// Divides the run's batch among `world_size` ranks. Errors: UsageError when there are more ranks
/// than samples.
BatchPlan divide(const RunBatch& run, int world_size);

/// As a JSON object, in one line.
std::string to_text(const RunBatch& run);
/// The inverse of to_text(); no value for any other text.
std::optional<RunBatch> parse_run_batch(std::string_view text);

}  // namespace ddp::worker
