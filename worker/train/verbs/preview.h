// `ddp-worker preview`: what the model is going to see, as one picture.
#pragma once

#include <filesystem>

#include "worker/train/run_training.h"

namespace ddp::worker {

/// Draws the first training samples of the job, augmented as in its first epoch, with their labels
/// and boxes, and writes them to `path` as a PNG.
/// Returns the exit code. Errors: UsageError, also when the file cannot be written: an older file
/// then stays as it was.
int preview(const RankContext& context, const std::filesystem::path& path);

}  // namespace ddp::worker
