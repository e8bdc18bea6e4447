// `ddp-worker predict`: the class of each image, or the objects in it, as a checkpoint's model sees
// it.
#pragma once

#include "worker/plan/options.h"
#include "worker/save/checkpoint/checkpoint.h"
#include "worker/train/run_training.h"

namespace ddp::worker {

/// The job by which a checkpoint was made, as far as its manifest says: no paths, no device.
/// Errors: UsageError for a checkpoint of an older version, and for keys that this version does not
/// know.
JobValues job_of(const LoadedCheckpoint& checkpoint);

/// Prints the likeliest classes of each image, or the objects in it: one line of text or of JSON
/// per image, in their order. The images are those of `options.files` behind the first; a folder
/// stands for all images in it. If `options.output` is given, objects are written to files, too.
/// Images are prepared as in an evaluation. `context.job` is job_of(). An image that cannot be read
/// is named, and the others go on. Returns the exit code: 2 when one could not be read. Errors:
/// UsageError.
int predict(const RankContext& context, const LoadedCheckpoint& checkpoint, const Options& options);

}  // namespace ddp::worker
