// Training at many sizes: the images of a step are brought to a size that is drawn, so that a model
// finds objects of any. All of it is drawn from one number, so that ranks and micro-steps that have
// the same one have the same size.
#pragma once

#include <cstdint>

#include "worker/data/loading/batch.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// The size for images of `size`, whose larger side becomes a multiple of `multiple` between 1 -
/// `most` and 1 + `most` times as long, each as likely; the other side the multiple that is nearest
/// to the same ratio. Where there is no such multiple, it is `size` itself.
/// No side is below two multiples, unless it was: a batch norm of one image needs more than one
/// place. Units: pixels. Precondition: 0 <= `most` <= 1.
ImageSize draw_scale(ImageSize size, double most, std::int64_t multiple, std::uint64_t seed);

/// Whether draw_scale() has more than one size to choose from.
bool has_scales(ImageSize size, double most, std::int64_t multiple);

/// Images resized bilinearly, without antialiasing, as the field does on the device; the boxes
/// (target 0, in pixels) with them. Waits for no GPU. Shapes: input [B, C, H, W]; becomes floats.
Batch resize_batch(const Batch& batch, ImageSize size);

}  // namespace ddp::worker
