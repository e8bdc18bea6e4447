// An image seen in perspective, or moved by any affine matrix, in a size of its own: what a
// training of detectors does to every image, so it is fast. Bilinear, without antialiasing; where
// nothing comes from, and around the image's edge, pixels are mixed with a colour.
#pragma once

#include <array>

#include "worker/image/collage.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// In rows. From points (x, y) of an image to where they go: x' = (m[0] x + m[1] y + m[2]) / d, y'
/// = (m[3] x + m[4] y + m[5]) / d, with d = m[6] x + m[7] y + m[8]. Pixel (0, 0) has its middle at
/// (0.5, 0.5).
using Matrix3 = std::array<double, 9>;

inline constexpr Matrix3 kIdentity3{1, 0, 0, 0, 1, 0, 0, 0, 1};

/// First `second`, then `first`: the product of matrices.
Matrix3 multiply(const Matrix3& first, const Matrix3& second);

/// Errors: std::logic_error when it has none.
Matrix3 inverse(const Matrix3& matrix);

/// `from`, moved by `matrix`, as far as it is seen in an image of `size`. Pixels that come from
/// behind the horizon (d not above 0 in either direction) have the colour of `border`. Of what a
/// pixel is mixed with, 1/128 is the smallest part. Errors: std::logic_error for a matrix without
/// inverse, and images without pixels.
void move_perspective(
    const Image& from, const Matrix3& matrix, ImageSize size, Color border, Image& into);
/// The same pixels as of the painted collage. Where the move turns or tilts nothing, it is not
/// painted.
void move_perspective(
    const Collage& from, const Matrix3& matrix, ImageSize size, Color border, Image& into);

}  // namespace ddp::worker
