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

/// On the host, whatever the device: no rank allocates on a device that is not its own. Rank 0
/// reads the weights that the job names. Errors: UsageError.
std::unique_ptr<Task> make_task(const Job& job,
                                const DataFacts& data,
                                const Registry& registry,
                                Group& group);

/// For a run that may go on: rank 0 takes the weights from its checkpoint where the file that it
/// began with is gone by then, and says so; `job` names no weights any more. `run_dir` is rank 0's;
/// null: nothing is written. `run_id` is for temporary names. Errors: UsageError; SystemError as
/// load_newest().
std::unique_ptr<Task> make_task_to_go_on(Job& job,
                                         const DataFacts& data,
                                         const Registry& registry,
                                         const OwnedDir* run_dir,
                                         const std::string& run_id,
                                         Group& group);

/// Brings the model to the device of this rank. All ranks call it. Errors: UsageError when another
/// rank has another model; PeerError.
void place_model(Task& task, Precision& precision, at::Device device, Group& group);

/// What images should look like in memory: as the weights of convolutions do.
at::MemoryFormat layout_of(const torch::nn::Module& model);

/// Of `parallel: data`: the model of `task` on its device, and copies of it on the job's others.
/// Errors: UsageError for a task that is not a classification.
DataParallel replicate(
    Task& task, const Job& job, const DataFacts& data, const Registry& registry, Group& group);

}  // namespace ddp::worker
