// Augmentations that move pixels or paint over them, and keep the image's size: see
// worker/data/augment/augment.h for their arguments.
#pragma once

#include "worker/data/augment/augment.h"

namespace ddp::worker {

Augment make_flip(const AugmentRequest& request);
Augment make_flip_vertical(const AugmentRequest& request);
Augment make_rotate(const AugmentRequest& request);
Augment make_affine(const AugmentRequest& request);
Augment make_cutout(const AugmentRequest& request);

}  // namespace ddp::worker
