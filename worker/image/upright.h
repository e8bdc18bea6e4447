// An image moved so that rows stay rows and columns stay columns: scaled, shifted, mirrored. All
// rows then take the same columns, and of a collage no more is read than what is seen. What a
// training of detectors does to every image unless it turns them, too.
#pragma once

#include "worker/image/collage.h"
#include "worker/image/perspective.h"

namespace ddp::worker {

/// `back`: from numbers of pixels to those that they come from.
bool is_upright(const Matrix3& back);

/// As move_perspective() of what paint() makes of `from`, bit for bit; `back` is the inverse of the
/// matrix. Precondition: is_upright(), and `into` has its size and as many channels.
void move_upright(const Collage& from, const Matrix3& back, Color border, Image& into);

}  // namespace ddp::worker
