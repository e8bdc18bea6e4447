// random-perspective: an image turned, scaled, sheared, shifted and tilted at once, in the size
// that a detector takes. See worker/data/augment.h for its arguments.
#pragma once

#include "worker/data/augment.h"

namespace ddp::worker {

/// Errors: UsageError.
Augment make_random_perspective(const AugmentRequest& request);

}  // namespace ddp::worker
