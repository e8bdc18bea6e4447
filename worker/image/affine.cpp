#include "worker/image/affine.h"

#include <algorithm>
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

/// Maps a point of the moved image to its source, with the image's middle at (0, 0) on both sides.
/// The sums are in torchvision's order, so that most numbers are the same.
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

// Pixels of a row that are treated together: their numbers stay on the stack, and loops over them
// become vectors.
constexpr std::size_t kBlock = 64;

/// One coordinate of the source of the moved image's pixels, in pixels: 0 is the middle of the
/// first one. Computed in torchvision's steps of float, over a grid from -1 to 1; otherwise a
/// source just between two pixels would be taken from the other one. Where torch multiplies and
/// adds with one rounding, this rounds to double and then to float.
class Coordinate {
 public:
  /// From the row (a, b, c) of an inverse matrix, for a side of `size` pixels.
  Coordinate(double a, double b, double c, int size, ImageSize image)
      : across_(scaled(a, size)),
        down_(scaled(b, size)),
        shift_(scaled(c, size)),
        half_(static_cast<float>(size) / 2),
        left_(static_cast<float>(image.width - 1) * 0.5F),
        top_(static_cast<float>(image.height - 1) * 0.5F) {}

  /// Fills in the coordinates of the pixels from `x` on in row `y`.
  void fill(int x, int y, std::array<float, kBlock>& into) const {
    const double of_y = (static_cast<double>(y) - top_) * down_;
    for (std::size_t i = 0; i < kBlock; ++i) {
      const float of_x = (static_cast<float>(x + static_cast<int>(i)) - left_) * across_;
      const float grid = static_cast<float>(of_y + of_x) + shift_;
      into[i] = static_cast<float>(static_cast<double>(grid + 1) * half_ - 0.5);
    }
  }

 private:
  static float scaled(double number, int size) {
    return static_cast<float>(number) / static_cast<float>(0.5 * size);
  }

  float across_, down_, shift_, half_, left_, top_;
};

/// The next whole number below, for numbers above -2.
int floor_of(float number) {
  return static_cast<int>(number + 2) - 2;
}

/// The nearest whole number, a half to the even one, for numbers below 2^22: with 1.5 * 2^23 added,
/// no bit is left for a fraction.
int nearest_to(float number) {
  constexpr float kNoFraction = 12'582'912;
  return static_cast<int>(number + kNoFraction - kNoFraction);
}

/// The sources of the pixels of an image of this size.
struct Grid {
  Coordinate x;
  Coordinate y;

  Grid(const Affine& affine, ImageSize image) : Grid(inverse_around_middle(affine, image), image) {}
  Grid(const std::array<double, 6>& m, ImageSize image)
      : x(m[0], m[1], m[2], image.width, image), y(m[3], m[4], m[5], image.height, image) {}
};

// No && between numbers that are computed anyway: a branch would keep a loop from becoming a
// vector.

/// The sources of the pixels of one block.
struct Points {
  std::array<float, kBlock> x;
  std::array<float, kBlock> y;

  Points(const Grid& grid, int first, int row) {
    grid.x.fill(first, row, x);
    grid.y.fill(first, row, y);
  }
  /// Whether a pixel of `image` is within one pixel of the point. Points may be any number.
  [[nodiscard]] bool is_near(std::size_t i, ImageSize image) const {
    const int above = static_cast<int>(x[i] > -1) & static_cast<int>(y[i] > -1);
    const int below = static_cast<int>(x[i] < static_cast<float>(image.width)) &
                      static_cast<int>(y[i] < static_cast<float>(image.height));
    return (above & below) != 0;
  }
};

bool is_pixel(int column, int row, ImageSize image) {
  return (static_cast<int>(column >= 0) & static_cast<int>(row >= 0) &
          static_cast<int>(column < image.width) & static_cast<int>(row < image.height)) != 0;
}

/// Calls `move`(first pixel, row, how many) for all of an image, block by block.
template <typename Move>
void for_each_block(ImageSize image, Move move) {
  constexpr int kStep = static_cast<int>(kBlock);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; x += kStep)
      move(x, y, static_cast<std::size_t>(std::min(kStep, image.width - x)));
  }
}

void move_nearest(const Image& from, const Grid& grid, Color fill, Image& into) {
  for_each_block(from.size(), [&](int first, int y, std::size_t count) {
    const Points points(grid, first, y);
    std::array<int, kBlock> places;  // -1: outside
    for (std::size_t i = 0; i < kBlock; ++i) {
      const bool is_near = points.is_near(i, from.size());
      const int column = nearest_to(is_near ? points.x[i] : -1);
      const int row = nearest_to(is_near ? points.y[i] : -1);
      const bool is_there = is_pixel(column, row, from.size());
      places[i] = is_there ? row * from.width + column : -1;
    }
    for (int channel = 0; channel < from.channels; ++channel) {
      const std::uint8_t* plane = from.row(channel, 0);
      const std::uint8_t color = fill[static_cast<std::size_t>(channel)];
      std::uint8_t* out = into.row(channel, y) + first;
      for (std::size_t i = 0; i < count; ++i)
        out[i] = places[i] < 0 ? color : plane[places[i]];
    }
  });
}

/// One of the four pixels around each point of a block. A pixel outside of the image has weight 0,
/// and is read as the first one.
struct Corner {
  std::array<int, kBlock> places;
  std::array<float, kBlock> weights;

  Corner(const Points& points, bool is_right, bool is_below, ImageSize image) {
    for (std::size_t i = 0; i < kBlock; ++i) {
      const bool is_near = points.is_near(i, image);
      const float x = is_near ? points.x[i] : 0;
      const float y = is_near ? points.y[i] : 0;
      const int left = floor_of(x);
      const int top = floor_of(y);
      const float right_part = x - static_cast<float>(left);
      const float lower_part = y - static_cast<float>(top);
      const int column = left + (is_right ? 1 : 0);
      const int row = top + (is_below ? 1 : 0);
      const bool is_there = is_near && is_pixel(column, row, image);
      places[i] = is_there ? row * image.width + column : 0;
      const float weight =
          (is_right ? right_part : 1 - right_part) * (is_below ? lower_part : 1 - lower_part);
      weights[i] = is_there ? weight : 0;
    }
  }
};

using Values = std::array<float, kBlock>;

Values mean_of(const std::array<Corner, 4>& corners, const std::uint8_t* plane) {
  const auto& [a, b, c, d] = corners;
  Values values;
  for (std::size_t i = 0; i < kBlock; ++i) {
    values[i] = static_cast<float>(plane[a.places[i]]) * a.weights[i] +
                static_cast<float>(plane[b.places[i]]) * b.weights[i] +
                static_cast<float>(plane[c.places[i]]) * c.weights[i] +
                static_cast<float>(plane[d.places[i]]) * d.weights[i];
  }
  return values;
}

/// torchvision's formula: a pixel that is mixed with black already is mixed with `color` again.
void mix(Values& values, const std::array<Corner, 4>& corners, float color) {
  const auto& [a, b, c, d] = corners;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const float weight = a.weights[i] + b.weights[i] + c.weights[i] + d.weights[i];
    values[i] = (values[i] - color) * weight + color;
  }
}

void move_bilinear(const Image& from, const Grid& grid, std::optional<Color> fill, Image& into) {
  for_each_block(from.size(), [&](int first, int y, std::size_t count) {
    const Points points(grid, first, y);
    const std::array<Corner, 4> corners{Corner(points, false, false, from.size()),
                                        Corner(points, true, false, from.size()),
                                        Corner(points, false, true, from.size()),
                                        Corner(points, true, true, from.size())};
    for (int channel = 0; channel < from.channels; ++channel) {
      Values values = mean_of(corners, from.row(channel, 0));
      if (fill) mix(values, corners, (*fill)[static_cast<std::size_t>(channel)]);
      std::uint8_t* out = into.row(channel, y) + first;
      for (std::size_t i = 0; i < count; ++i)
        out[i] = static_cast<std::uint8_t>(nearest_to(values[i]));
    }
  });
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
