// Makes all parts of a training or an evaluation and runs it, on a rank that has its group, device
// and data. Called by run_training; calls training_loop.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files/owned_dir.h"
#include "worker/data/source.h"
#include "worker/dist/device.h"
#include "worker/dist/group.h"
#include "worker/plan/job.h"
#include "worker/train/run_training.h"
#include "worker/train/survivor.h"

namespace ddp::worker {

/// Trains the job to its end. Returns the exit code. `run_dir` is rank 0's; null: nothing is
/// written. `ranks` describe where each rank runs. `held` is the state that this process has kept
/// from an earlier round, if any; after a PeerError it is the state of this round, if the rank can
/// continue with it.
/// Errors: as TrainingLoop::run(), and those of the task's factory.
int train_task(const RankContext& context,
               const Job& wanted,
               const Device& device,
               const Sources& data,
               const OwnedDir* run_dir,
               const std::vector<std::string>& ranks,
               std::optional<HeldState>& held,
               Group& group);

struct EvaluationRequest {
  std::filesystem::path checkpoint;  // as in save/checkpoint/checkpoint_path; only rank 0 reads it
  bool is_json = false;
};

/// Evaluates the checkpoint on the test set, with its moving averages if it has any, as the run
/// that saved it did; rank 0 prints the result. Returns the exit code: 0, 143 (stopped), 2 (too
/// many samples cannot be read). Errors: UsageError for a checkpoint that does not fit the job;
/// those of Evaluation::run().
int evaluate_task(const RankContext& context,
                  const Job& job,
                  const Device& device,
                  const Sources& data,
                  const EvaluationRequest& request,
                  Group& group);

}  // namespace ddp::worker
