// Whether a set of images lies on the device or is loaded batch by batch (data.resident). Both give
// the same batches, so ranks may choose differently.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>

#include "worker/data/loading/loader.h"
#include "worker/plan/job.h"

namespace ddp::worker {

struct LoaderChoice {
  const DataJob& job;
  at::Device device;
  bool speaks = false;  // rank 0 logs for all
};

/// Errors: UsageError where the job wants on the device a set that cannot lie there with these
/// augmentations, which are those of the job or none.
void require_residence(const LoaderChoice& choice,
                       const Source& source,
                       std::span<const Augment> augments);

/// The loader of a set whose augmentations are those of the job, or none. Rank 0 logs what is
/// chosen, except for `false`, and for `auto` on a CPU. A rank whose copy finds too little memory
/// logs that itself. Errors: UsageError where the job wants the set on the device and that is not
/// possible.
std::unique_ptr<BatchLoader> make_loader(const LoaderChoice& choice,
                                         std::shared_ptr<const Source> source,
                                         LoaderRequest request);

}  // namespace ddp::worker
