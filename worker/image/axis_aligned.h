// Moves an image by a matrix that keeps rows and columns axis-aligned: it only scales, shifts and
// mirrors. All rows then use the same source columns, and only the visible part of a collage is
// read. The usual case when a detector is trained.
#pragma once

#include "worker/image/collage.h"
#include "worker/image/perspective.h"

namespace ddp::worker {

/// Whether `back`, which maps pixel indices to source indices, is such a matrix.
bool is_axis_aligned(const Matrix3& back);

/// Gives the pixels of move_perspective() for the painted `from`, bit for bit; `back` is the
/// inverse matrix. Precondition: is_axis_aligned(), and `into` has its size and the channels of
/// `from`.
void move_axis_aligned(const Collage& from, const Matrix3& back, Color border, Image& into);

}  // namespace ddp::worker
