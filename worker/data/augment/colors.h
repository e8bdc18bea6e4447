// Augmentations that change the values of pixels: see worker/data/augment/augment.h for their
// arguments.
#pragma once

#include "worker/data/augment/augment.h"

namespace ddp::worker {

Augment make_color_jitter(const AugmentRequest& request);
Augment make_hsv(const AugmentRequest& request);
Augment make_rand_augment(const AugmentRequest& request);

}  // namespace ddp::worker
