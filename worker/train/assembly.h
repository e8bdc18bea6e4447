// Puts the parts of a run together, on one rank whose group, device and data are there.
#pragma once

#include "common/owned_dir.h"
#include "worker/data/source.h"
#include "worker/dist/device.h"
#include "worker/dist/group.h"
#include "worker/plan/job.h"
#include "worker/train/session.h"

namespace ddp::worker {

/// Trains the job to the end. Returns the exit code. `run_dir` is rank 0's; null: nothing is
/// written. Errors: as Trainer::run(), and those of the task's factory.
int train_task(const Session& session,
               const Job& wanted,
               const Device& device,
               const Sources& data,
               const OwnedDir* run_dir,
               Group& group);

}  // namespace ddp::worker
