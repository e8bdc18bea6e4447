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

/// From a point of the moved image to where it comes from, around the middle of the image: both
/// have it at (0, 0). The order of the sums is torchvision's, so that most numbers are.
std::array<double, 6> inverse_around_middle(const Affine& affine, ImageSize image) {
  const Turn turn = turn_of(affine);
  const double middle_x = image.width * 0.5;
  const double middle_y = image.height * 0.5;
  const auto [at_x, at_y] = affine.center.value_or(std::array{middle_x, middle_y});
  const double x = at_x - middle_x;
  const double y = at_y - middle_y;
  std::array<double, 6> m{turn.d / affine.scale,
                          -turn.b / affine.scale,
                          0,
                          -turn.c / affine.scale,
                          turn.a / affine.scale,
                          0};
  m[2] = x - m[0] * (x + affine.translate[0]) - m[1] * (y + affine.translate[1]);
  m[5] = y - m[3] * (x + affine.translate[0]) - m[4] * (y + affine.translate[1]);
  return m;
}

/// a * b + c with one rounding (to double and then to float, which differs from it once in 2^29).
float multiply_add(float a, float b, float c) {
  return static_cast<float>(static_cast<double>(a) * b + c);
}

/// One coordinate of where the pixels of the moved image come from, in pixels: 0 is the middle of
/// the first one. In torchvision's steps of float, over a grid from -1 to 1: what comes from just
/// between two pixels would be taken from the other one else.
class Coordinate {
 public:
  /// Of the row (a, b, c) of an inverse matrix, for a side of `size` pixels.
  Coordinate(double a, double b, double c, int size, ImageSize image)
      : across_(scaled(a, size)),
        down_(scaled(b, size)),
        shift_(scaled(c, size)),
        half_(static_cast<float>(size) / 2),
        left_(static_cast<float>(image.width - 1) * 0.5F),
        top_(static_cast<float>(image.height - 1) * 0.5F) {}

  [[nodiscard]] float at(int x, int y) const {
    const float of_x = (static_cast<float>(x) - left_) * across_;
    const float grid = multiply_add(static_cast<float>(y) - top_, down_, of_x) + shift_;
    return multiply_add(grid + 1, half_, -0.5F);
  }

 private:
  static float scaled(double number, int size) {
    return static_cast<float>(number) / static_cast<float>(0.5 * size);
  }

  float across_, down_, shift_, half_, left_, top_;
};

/// Below it, for numbers above -2.
int floor_of(float number) {
  return static_cast<int>(number + 2) - 2;
}

/// The nearest whole number, a half to the even one, for numbers above -2.
int nearest_to(float number) {
  const int below = floor_of(number);
  const float rest = number - static_cast<float>(below);
  return below + (rest > 0.5F || (rest == 0.5F && below % 2 != 0) ? 1 : 0);
}

/// Where the pixels of an image of this size come from.
struct Grid {
  Coordinate x;
  Coordinate y;

  Grid(const Affine& affine, ImageSize image) : Grid(inverse_around_middle(affine, image), image) {}
  Grid(const std::array<double, 6>& m, ImageSize image)
      : x(m[0], m[1], m[2], image.width, image), y(m[3], m[4], m[5], image.height, image) {}
};

bool is_inside(float x, float y, ImageSize image) {
  return x > -1 && y > -1 && x < static_cast<float>(image.width) &&
         y < static_cast<float>(image.height);
}

void move_nearest(const Image& from, const Grid& grid, Color fill, Image& into) {
  for (int y = 0; y < from.height; ++y) {
    for (int x = 0; x < from.width; ++x) {
      const float from_x = grid.x.at(x, y);
      const float from_y = grid.y.at(x, y);
      int column = -1;
      int row = -1;
      if (is_inside(from_x, from_y, from.size())) {
        column = nearest_to(from_x);
        row = nearest_to(from_y);
      }
      const bool is_there = column >= 0 && row >= 0 && column < from.width && row < from.height;
      for (int channel = 0; channel < from.channels; ++channel)
        into.row(channel, y)[x] =
            is_there ? from.row(channel, row)[column] : fill[static_cast<std::size_t>(channel)];
    }
  }
}

/// The four pixels around a point. Those outside of the image weigh nothing, and are read as its
/// first one.
struct Corners {
  std::array<std::size_t, 4> places{};
  std::array<float, 4> weights{};

  Corners(float x, float y, ImageSize image) {
    const int left = floor_of(x);
    const int top = floor_of(y);
    const float right_part = x - static_cast<float>(left);
    const float bottom_part = y - static_cast<float>(top);
    for (int i = 0; i < 4; ++i) {
      const int column = left + i % 2;
      const int row = top + i / 2;
      if (column < 0 || row < 0 || column >= image.width || row >= image.height) continue;
      const auto corner = static_cast<std::size_t>(i);
      places[corner] = static_cast<std::size_t>(row) * static_cast<std::size_t>(image.width) +
                       static_cast<std::size_t>(column);
      weights[corner] =
          (i % 2 == 0 ? 1 - right_part : right_part) * (i / 2 == 0 ? 1 - bottom_part : bottom_part);
    }
  }

  [[nodiscard]] float mean(std::span<const std::uint8_t> plane) const {
    float sum = 0;
    for (std::size_t i = 0; i < 4; ++i)
      sum += static_cast<float>(plane[places[i]]) * weights[i];
    return sum;
  }
  [[nodiscard]] float weight() const { return weights[0] + weights[1] + weights[2] + weights[3]; }
};

void move_bilinear(const Image& from, const Grid& grid, std::optional<Color> fill, Image& into) {
  for (int y = 0; y < from.height; ++y) {
    for (int x = 0; x < from.width; ++x) {
      const float from_x = grid.x.at(x, y);
      const float from_y = grid.y.at(x, y);
      const bool is_there = is_inside(from_x, from_y, from.size());
      const Corners corners(is_there ? from_x : 0, is_there ? from_y : 0, from.size());
      for (int channel = 0; channel < from.channels; ++channel) {
        float value = is_there ? corners.mean(from.plane(channel)) : 0;
        if (fill) {
          const float color = (*fill)[static_cast<std::size_t>(channel)];
          value = (value - color) * (is_there ? corners.weight() : 0) + color;
        }
        into.row(channel, y)[x] = static_cast<std::uint8_t>(nearest_to(value));
      }
    }
  }
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

void move_affine(const Image& from,
                 const Affine& affine,
                 Interpolation interpolation,
                 std::optional<Color> fill,
                 Image& into) {
  if (!(affine.scale > 0))
    throw std::logic_error("an affine move with a scale that is not positive");
  into.reshape(from.channels, from.size());
  const Grid grid(affine, from.size());
  if (interpolation == Interpolation::nearest)
    move_nearest(from, grid, fill.value_or(Color{}), into);
  else
    move_bilinear(from, grid, fill, into);
}

}  // namespace ddp::worker
