// Augmentations that mix two samples: see worker/data/augment/augment.h for their arguments. Labels
// become shares, one float32 per class; boxes of both samples are kept.
#pragma once

#include "worker/data/augment/augment.h"

namespace ddp::worker {

Augment make_mixup(const AugmentRequest& request);
Augment make_cutmix(const AugmentRequest& request);

/// Draws another sample of the source and applies `before` to it. If it is bad, another one is
/// drawn; a bad sample is counted and listed when its own turn comes. After several bad ones
/// `other` becomes `sample` once more. Errors: those of the source, of `before`.
void read_other(const Sample& sample,
                std::span<const Augment> before,
                Random& random,
                const Source& source,
                Sample& other);

/// The first epoch in which an augmentation is off: its argument `close` (default 10) says how many
/// epochs before the run's end. A run of at most `close` epochs keeps it to the end. Errors:
/// UsageError.
std::uint64_t first_epoch_without(const AugmentRequest& request);

}  // namespace ddp::worker
