// Affine moves: rotation, scale, shear and translation in one, with torchvision's uint8 results.
#pragma once

#include <array>
#include <optional>

#include "worker/image/image.h"

namespace ddp::worker {

enum class Interpolation { nearest, bilinear };

/// Rotate, scale and shear around a point, then translate.
struct Affine {
  double angle = 0;                   // degrees, clockwise
  std::array<double, 2> translate{};  // pixels, right and down
  double scale = 1;
  std::array<double, 2> shear{};                  // degrees
  std::optional<std::array<double, 2>> center{};  // x, y in pixels; absent: the middle of the image

  bool operator==(const Affine&) const = default;
};

/// torchvision's rotate(angle): counter-clockwise.
inline Affine rotation(double angle) {
  Affine affine;
  affine.angle = -angle;
  return affine;
}

/// Maps points (x, y) of the image to their new places: x' = m[0] x + m[1] y + m[2], y' = m[3] x +
/// m[4] y + m[5]. The centre of pixel (0, 0) is at (0.5, 0.5).
std::array<double, 6> affine_matrix(const Affine& affine, ImageSize image);

/// Moves the image and keeps its size. Without `fill`, pixels from outside are black, and bilinear
/// pixels at the image's edge are mixed with black; with `fill`, both use torchvision's formula for
/// that colour. Errors: std::logic_error when the scale is not positive.
void move_affine(const Image& from,
                 const Affine& affine,
                 Interpolation interpolation,
                 std::optional<Color> fill,
                 Image& into);

}  // namespace ddp::worker
