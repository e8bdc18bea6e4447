// A Python script's checkpoint (save/format/python_checkpoint) as one of ours, for this very job:
// then it is resumed like any other.
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
  const SharedState& shared;                   // what a checkpoint of this job holds
  const std::vector<std::string>& parameters;  // names of the model's, the frozen ones too
  const std::vector<NamedTensor>& trained;     // of them
  std::int64_t steps_per_epoch = 0;
};

/// Reads it, and gives what a run of this job would have saved at the beginning of the file's
/// epoch. Weights are taken as by model.weights, strictly. The optimizer's state is that of torch's
/// parameters 0, 1, ...: their names where the file tells them, else the file's own order, and
/// every shape must fit. A moving average starts at the weights; loss scale and counts start again.
/// Prints what was taken, and logs what of the file's settings this job has otherwise. Errors:
/// UsageError with all that does not fit; SystemError.
LoadedCheckpoint import_python(const ImportRequest& request);

}  // namespace ddp::worker
