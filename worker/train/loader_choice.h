// Chooses between a ResidentLoader, which keeps the whole set on the device, and a Loader
// (data.resident). Both give the same batches, so ranks may choose differently.
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
  bool logs = false;  // true on rank 0
};

/// Errors: UsageError if data.resident is true but the set cannot be on the device with these
/// augmentations, which are the job's or none.
void require_residence(const LoaderChoice& choice,
                       const Source& source,
                       std::span<const Augment> augments);

/// The loader of a set; `options` has the job's augmentations or none. Rank 0 logs the choice,
/// unless data.resident is false, or auto on a CPU. A rank that finds too little memory while
/// copying logs that itself. Errors: UsageError if data.resident is true and that is not possible.
std::unique_ptr<BatchLoader> make_loader(const LoaderChoice& choice,
                                         std::shared_ptr<const Source> source,
                                         LoaderOptions options);

}  // namespace ddp::worker
