// Augmentations that mix two samples: see worker/data/augment.h for their arguments. Labels become
// shares: one number of float32 per class.
#pragma once

#include "worker/data/augment.h"

namespace ddp::worker {

Augment make_mixup(const AugmentRequest& request);
Augment make_cutmix(const AugmentRequest& request);

}  // namespace ddp::worker
