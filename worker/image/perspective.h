// Moves an image by a perspective or any affine matrix, into an image of another size. A training
// of detectors does this to every image, so it is fast. Bilinear, without antialiasing; pixels
// without a source, and those around the image's edge, are mixed with a colour.
#pragma once

#include <array>

#include "worker/image/collage.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// A matrix, row by row. Maps points (x, y) of an image to their new places: x' = (m[0] x + m[1] y
/// + m[2]) / d, y' = (m[3] x + m[4] y + m[5]) / d, with d = m[6] x + m[7] y + m[8]. Pixel (0, 0)
/// has its middle at (0.5, 0.5).
using Matrix3 = std::array<double, 9>;

inline constexpr Matrix3 kIdentity3{1, 0, 0, 0, 1, 0, 0, 0, 1};

/// The product of matrices: moves by `second` first, then by `first`.
Matrix3 multiply(const Matrix3& first, const Matrix3& second);

/// Errors: std::logic_error when the matrix has no inverse.
Matrix3 inverse(const Matrix3& matrix);

/// Moves `from` by `matrix`, as far as it is seen in an image of `size`. Pixels whose source is
/// behind the horizon (d not above 0 in either direction) have the colour of `border`. Shares of
/// source pixels are multiples of 1/128. Errors: std::logic_error for a matrix without inverse, and
/// images without pixels.
void move_perspective(
    const Image& from, const Matrix3& matrix, ImageSize size, Color border, Image& into);
/// The same for a collage; the pixels are those of the painted one. If the move neither turns nor
/// tilts, the collage is not painted.
void move_perspective(
    const Collage& from, const Matrix3& matrix, ImageSize size, Color border, Image& into);

}  // namespace ddp::worker
