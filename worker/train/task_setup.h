// Makes the task of a job, ready for training: initialises or loads weights, freezes parameters,
// sets the memory layout.
#pragma once

#include <memory>
#include <string>

#include "common/files/owned_dir.h"
#include "worker/dist/data_parallel.h"
#include "worker/dist/group.h"
#include "worker/train/registry.h"
#include "worker/train/step/precision.h"

namespace ddp::worker {

/// Makes the task on the host, whatever the device is, so that no rank allocates on another rank's
/// device. Rank 0 reads the weights that the job names. Errors: UsageError.
std::unique_ptr<Task> make_task(const Job& job,
                                const DataFacts& data,
                                const Registry& registry,
                                Group& group);

/// As make_task(), for a run that may resume. If rank 0 cannot read the weights that `job` names,
/// but there is a checkpoint, it logs that and removes them from `job`, because the checkpoint's
/// weights will replace them. `run_dir` is rank 0's; null: there is none. `run_id` is for temporary
/// names. Errors: UsageError; SystemError as load_newest().
std::unique_ptr<Task> make_task_for_resume(Job& job,
                                           const DataFacts& data,
                                           const Registry& registry,
                                           const OwnedDir* run_dir,
                                           const std::string& run_id,
                                           Group& group);

/// Moves the model to the device of this rank, and compares the models of all ranks. All ranks call
/// it. Errors: PeerError, with 203 when models differ.
void place_model(Task& task, Precision& precision, at::Device device, Group& group);

/// The memory format for images: that of the convolutions' weights.
at::MemoryFormat layout_of(const torch::nn::Module& model);

/// For `parallel: data`: the model of `task` on its device, and replicas on the job's other
/// devices. Errors: UsageError for a task that is not a classification.
DataParallel replicate(
    Task& task, const Job& job, const DataFacts& data, const Registry& registry, Group& group);

}  // namespace ddp::worker
