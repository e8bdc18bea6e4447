// Converts a Python script's checkpoint (save/format/python_checkpoint) into one of this job, which
// then resumes from it as from any other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "worker/plan/job.h"
#include "worker/save/checkpoint/checkpoint.h"
#include "worker/train/snapshot.h"

namespace ddp::worker {

struct ImportRequest {
  std::filesystem::path path;
  const Job& job;
  const SharedState& shared;                   // the tensors of this job's checkpoints
  const std::vector<std::string>& parameters;  // names of all, also of frozen ones
  const std::vector<NamedTensor>& trained;     // the trainable parameters
  std::int64_t steps_per_epoch = 0;
};

/// Reads the file, and returns what a run of this job would have saved at the beginning of the
/// file's epoch. Loads weights as model.weights does, strictly. Python numbers the optimizer's
/// parameters 0, 1, ...: they are matched by their names in the file, if it has names, else by
/// order, and every shape must fit. A moving average starts at the weights; loss scale and counts
/// start again. Prints what was used, and warns about settings that differ from this job's.
/// Errors: UsageError with all that does not fit; SystemError.
LoadedCheckpoint import_python_checkpoint(const ImportRequest& request);

}  // namespace ddp::worker
