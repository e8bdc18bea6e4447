// Augmentations that change which part of an image is there, and its size: see
// worker/data/augment.h for their arguments.
#pragma once

#include "worker/data/augment.h"

namespace ddp::worker {

Augment make_crop(const AugmentRequest& request);
Augment make_random_resized_crop(const AugmentRequest& request);
Augment make_resize(const AugmentRequest& request);
Augment make_center_crop(const AugmentRequest& request);
Augment make_letterbox(const AugmentRequest& request);

}  // namespace ddp::worker
