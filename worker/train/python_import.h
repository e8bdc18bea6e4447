// Turns a Python script's checkpoint (save/format/python_checkpoint) into one of ours, for this
// very job, which is then resumed like any other.
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
  const SharedState& shared;                   // tensors that a checkpoint of this job holds
  const std::vector<std::string>& parameters;  // names of all the model's parameters, frozen or not
  const std::vector<NamedTensor>& trained;     // those that are trained
  std::int64_t steps_per_epoch = 0;
};

/// Reads the file, and returns what a run of this job would have saved at the beginning of the
/// file's epoch. Weights are loaded as by model.weights, strictly. The optimizer's state belongs to
/// torch's parameters 0, 1, ...: they are matched by the names in the file, if it has them, else by
/// the file's order, and every shape must fit. A moving average starts at the weights; loss scale
/// and counts start again. Prints what was taken, and warns about settings in the file that this
/// job has otherwise.
/// Errors: UsageError with all that does not fit; SystemError.
LoadedCheckpoint import_python(const ImportRequest& request);

}  // namespace ddp::worker
