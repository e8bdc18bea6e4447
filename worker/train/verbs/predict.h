// `ddp-worker predict`: predicts the class of each image, or the objects in it, with a checkpoint's
// model.
#pragma once

#include "worker/plan/options.h"
#include "worker/save/checkpoint/checkpoint.h"
#include "worker/train/run_training.h"

namespace ddp::worker {

/// The job that has written a checkpoint, as far as the manifest has it: without paths and device.
/// Errors: UsageError for a checkpoint of an older version, and for keys that this version does not
/// know.
JobValues job_of(const LoadedCheckpoint& checkpoint);

/// Prints the likeliest classes of each image, or the objects in it: one line of text or of JSON
/// per image, in their order. The images are options.files from the second on; a folder means all
/// images in it. If options.output is set, writes objects to files, too. Images are prepared as in
/// an evaluation. `context.job` is job_of(checkpoint). Reports an image that cannot be read, and
/// continues with the others. Returns the exit code: 2 when an image could not be read. Errors:
/// UsageError.
int predict(const RankContext& context, const LoadedCheckpoint& checkpoint, const Options& options);

}  // namespace ddp::worker
