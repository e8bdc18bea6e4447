// Moves an image by a perspective or affine matrix, into an image of any size. Optimised, because
// the training of a detector does this to every image. Bilinear, without antialiasing; pixels from
// outside get a border colour, and are mixed with it at the image's edge.
#pragma once

#include <array>

#include "worker/image/collage.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// A matrix, row by row. Maps points (x, y) of an image to their new places: x' = (m[0] x + m[1] y
/// + m[2]) / d, y' = (m[3] x + m[4] y + m[5]) / d, with d = m[6] x + m[7] y + m[8]. The centre of
/// pixel (0, 0) is at (0.5, 0.5).
using Matrix3 = std::array<double, 9>;

inline constexpr Matrix3 kIdentity3{1, 0, 0, 0, 1, 0, 0, 0, 1};

/// The matrix product: moves by `second`, then by `first`.
Matrix3 multiply(const Matrix3& first, const Matrix3& second);

/// Errors: std::logic_error when the matrix has no inverse.
Matrix3 inverse(const Matrix3& matrix);

/// Moves `from` by `matrix` and writes what is visible in an image of `size`. Pixels whose source
/// is behind the horizon (d <= 0 in either direction) get the colour `border`. Weights of source
/// pixels are multiples of 1/128. Errors: std::logic_error for a matrix without inverse, and images
/// without pixels.
void move_perspective(
    const Image& from, const Matrix3& matrix, ImageSize size, Color border, Image& into);
/// The same for a collage, with the pixels of the painted collage. It is only painted if the move
/// rotates, shears or tilts it.
void move_perspective(
    const Collage& from, const Matrix3& matrix, ImageSize size, Color border, Image& into);

}  // namespace ddp::worker
