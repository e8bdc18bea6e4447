// How long a run is and how its samples are divided among the ranks, from the job and the size of
// its data.
#pragma once

#include <cstdint>

#include "worker/plan/job.h"
#include "worker/plan/partition.h"
#include "worker/plan/schedule.h"

namespace ddp::worker {

struct RunPlan {
  PartitionOptions partition;
  std::int64_t steps_per_epoch = 1;
  std::int64_t steps = 1;  // of the whole run
  Schedule schedule;
  bool has_cut_warmup = false;  // the warm-up was longer than the run
};

/// `samples` are those of the training set. Errors: UsageError when no step would be left.
RunPlan plan_run(const Job& job, std::int64_t samples, int world_size, int rank);

/// The job's schedule in steps. Units: `steps_per_epoch` and `steps` (of the run) are optimizer
/// steps.
Schedule make_schedule(const Job& job, std::int64_t steps_per_epoch, std::int64_t steps);

/// Epochs of the run; train.max_steps may end the last one early.
std::int64_t epochs_of(const RunPlan& plan);

/// Different samples in the first `steps` steps of an epoch.
std::int64_t samples_of(const RunPlan& plan, std::int64_t steps);

}  // namespace ddp::worker
