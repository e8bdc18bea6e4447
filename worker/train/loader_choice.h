// Whether a set of images lies on the device or is loaded batch by batch (data.resident). Both give
// the same batches, so ranks may choose differently.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "worker/data/loading/loader.h"
#include "worker/plan/job.h"

namespace ddp::worker {

struct LoaderChoice {
  const DataJob& job;
  at::Device device;
  bool speaks = false;  // rank 0 logs for all
};

/// The loader of a set whose augmentations are those of the job, or none. On a device that is not a
/// CPU what is chosen is logged. Errors: UsageError where the job wants the set on the device and
/// that is not possible.
std::unique_ptr<BatchLoader> make_loader(const LoaderChoice& choice,
                                         std::shared_ptr<const Source> source,
                                         LoaderRequest request);

}  // namespace ddp::worker
