// Multi-scale training: resizes the images of a step to a random size, so that a model finds
// objects of any size. The size depends only on the seed, which is the same for all ranks and
// micro-steps of a step.
#pragma once

#include <cstdint>

#include "worker/data/loading/batch.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// Draws the new size of images of `size`. The larger side becomes a multiple of `multiple` between
/// 1 - `most` and 1 + `most` times as long, each equally likely; the other side becomes the
/// multiple nearest to the same ratio. If there is no such multiple, returns `size`.
/// No side gets below two multiples unless it was before: a batch norm of one image needs more than
/// one grid cell. Units: pixels. Precondition: 0 <= `most` <= 1.
ImageSize draw_scale(ImageSize size, double most, std::int64_t multiple, std::uint64_t seed);

/// Whether draw_scale() has more than one size to choose from.
bool has_scales(ImageSize size, double most, std::int64_t multiple);

/// Resizes images bilinearly, without antialiasing, as ultralytics does on the device; and the
/// boxes (target 0, in pixels) with them. Does not wait for a GPU. Shapes: input [B, C, H, W];
/// becomes floats.
Batch resize_batch(const Batch& batch, ImageSize size);

}  // namespace ddp::worker
