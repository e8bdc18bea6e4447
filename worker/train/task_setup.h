// The task of a job, ready to be trained: weights drawn or loaded, frozen, laid out.
#pragma once

#include <memory>
#include <string>

#include "common/files/owned_dir.h"
#include "worker/dist/data_parallel.h"
#include "worker/dist/group.h"
#include "worker/train/registry.h"
#include "worker/train/step/precision.h"

namespace ddp::worker {

/// Makes the task on the host, whatever the device: no rank allocates on a device that is not its
/// own. Rank 0 reads the weights that the job names. Errors: UsageError.
std::unique_ptr<Task> make_task(const Job& job,
                                const DataFacts& data,
                                const Registry& registry,
                                Group& group);

/// As make_task(), for a run that may resume. If rank 0 cannot read the weights that `job` names,
/// but there is a checkpoint, it logs that and removes them from `job`: the checkpoint's weights
/// replace them. `run_dir` is rank 0's; null: nothing is written. `run_id` is for temporary names.
/// Errors: UsageError; SystemError as load_newest().
std::unique_ptr<Task> make_task_to_go_on(Job& job,
                                         const DataFacts& data,
                                         const Registry& registry,
                                         const OwnedDir* run_dir,
                                         const std::string& run_id,
                                         Group& group);

/// Brings the model to the device of this rank. All ranks call it. Errors: PeerError, with 203 when
/// another rank has another model.
void place_model(Task& task, Precision& precision, at::Device device, Group& group);

/// The memory format that images should have: that of the convolutions' weights.
at::MemoryFormat layout_of(const torch::nn::Module& model);

/// For `parallel: data`: the model of `task` on its device, and copies of it on the job's others.
/// Errors: UsageError for a task that is not a classification.
DataParallel replicate(
    Task& task, const Job& job, const DataFacts& data, const Registry& registry, Group& group);

}  // namespace ddp::worker
