// The task of a job, ready to be trained: weights drawn or loaded, frozen, laid out.
#pragma once

#include <memory>
#include <string>

#include "worker/dist/data_parallel.h"
#include "worker/dist/group.h"
#include "worker/train/registry.h"

namespace ddp::worker {

/// On the host, whatever the device: no rank allocates on a device that is not its own. Rank 0
/// reads the weights that the job names. Errors: UsageError.
std::unique_ptr<Task> make_task(const Job& job,
                                const DataFacts& data,
                                const Registry& registry,
                                Group& group);

/// What images should look like in memory: as the weights of convolutions do.
at::MemoryFormat layout_of(const torch::nn::Module& model);

/// Of `parallel: data`: the model of `task` on its device, and copies of it on the job's others.
/// Errors: UsageError for a task that is not a classification.
DataParallel replicate(
    Task& task, const Job& job, const DataFacts& data, const Registry& registry, Group& group);

}  // namespace ddp::worker
