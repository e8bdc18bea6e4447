// Augmentations that mix two samples: see worker/data/augment/augment.h for their arguments. Labels
// become soft labels, one float32 per class; boxes of both samples are kept.
#pragma once

#include "worker/data/augment/augment.h"

namespace ddp::worker {

Augment make_mixup(const AugmentRequest& request);
Augment make_cutmix(const AugmentRequest& request);

/// Draws another sample of the source and applies `before` to it. Draws again if it is bad: a bad
/// sample is counted and listed only when its own turn comes. After several bad ones `other`
/// becomes a copy of `sample`. Errors: those of the source, of `before`.
void read_other(const Sample& sample,
                std::span<const Augment> before,
                Random& random,
                const Source& source,
                Sample& other);

/// The first epoch without this augmentation: the argument `close` (default 10) says for how many
/// epochs at the end it is off. A run of at most `close` epochs keeps it to the end. Errors:
/// UsageError.
std::uint64_t first_epoch_without(const AugmentRequest& request);

}  // namespace ddp::worker
