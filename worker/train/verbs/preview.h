// `ddp-worker preview`: draws what the model will see, as one picture.
#pragma once

#include <filesystem>

#include "worker/train/run_training.h"

namespace ddp::worker {

/// Draws the first training samples of the job, augmented as in the first epoch, with their labels
/// and boxes, and writes the picture to `path` as PNG.
/// Returns the exit code. Errors: UsageError, also when the file cannot be written; then an older
/// file is unchanged.
int preview(const RankContext& context, const std::filesystem::path& path);

}  // namespace ddp::worker
