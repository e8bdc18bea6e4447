// Moves an image so that rows stay rows and columns stay columns: scaled, shifted, mirrored. All
// rows then use the same columns, and only the seen part of a collage is read. A training of
// detectors does this to every image, unless it also turns them.
#pragma once

#include "worker/image/collage.h"
#include "worker/image/perspective.h"

namespace ddp::worker {

/// `back` maps indices of pixels to those of their sources.
bool is_upright(const Matrix3& back);

/// As move_perspective() of the painted `from`, bit for bit; `back` is the inverse of the matrix.
/// Precondition: is_upright(), and `into` has its size and as many channels.
void move_upright(const Collage& from, const Matrix3& back, Color border, Image& into);

}  // namespace ddp::worker
