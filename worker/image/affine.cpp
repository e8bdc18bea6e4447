#include "worker/image/affine.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace ddp::worker {
namespace {

double radians(double degrees) {
  return degrees * (std::numbers::pi / 180);
}

/// Rotation and shears, without scale: [a b; c d], of determinant 1. In torchvision's order,
/// R(angle) SHy(shear y) SHx(shear x).
struct Turn {
  double a, b, c, d;
};

Turn turn_of(const Affine& affine) {
  const double angle = radians(affine.angle);
  const double shear_y = radians(affine.shear[1]);
  const double tan_x = std::tan(radians(affine.shear[0]));
  const double a = std::cos(angle - shear_y) / std::cos(shear_y);
  const double c = std::sin(angle - shear_y) / std::cos(shear_y);
  return {.a = a, .b = -(a * tan_x + std::sin(angle)), .c = c, .d = std::cos(angle) - c * tan_x};
}

}  // namespace

std::array<double, 6> affine_matrix(const Affine& affine, ImageSize image) {
  const Turn turn = turn_of(affine);
  const auto [x, y] = affine.center.value_or(std::array{image.width * 0.5, image.height * 0.5});
  std::array<double, 6> m{turn.a * affine.scale,
                          turn.b * affine.scale,
                          0,
                          turn.c * affine.scale,
                          turn.d * affine.scale,
                          0};
  m[2] = x + affine.translate[0] - m[0] * x - m[1] * y;
  m[5] = y + affine.translate[1] - m[3] * x - m[4] * y;
  return m;
}

}  // namespace ddp::worker
