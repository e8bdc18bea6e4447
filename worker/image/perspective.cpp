#include "worker/image/perspective.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "worker/image/axis_aligned.h"
#include "worker/image/edge_painter.h"
#include "worker/image/row_source.h"

namespace ddp::worker {
namespace {

// Pixels of a row that are computed together: their data stay in the cache.
constexpr int kSpan = 64;

/// Neighbouring pixels of one row: the upper left source pixel of each, and the weights of its
/// neighbours.
struct Block {
  std::size_t count = 0;
  std::array<std::int32_t, kSpan> places;
  std::array<std::int16_t, kSpan> right;
  std::array<std::int16_t, kSpan> below;
};

/// Precondition: all source pixels are inside of an image of that width.
void find_straight(const RowSource& source, int first, int width, Block& block) {
  Steps x(source.x, source.depth, first);
  Steps y(source.y, source.depth, first);
  for (std::size_t i = 0; i < block.count; ++i) {
    block.places[i] = y.pixel() * width + x.pixel();
    block.right[i] = x.part();
    block.below[i] = y.part();
    x.advance();
    y.advance();
  }
}

void find_in_perspective(const RowSource& source, int first, int width, Block& block) {
  for (std::size_t i = 0; i < block.count; ++i) {
    const int pixel = first + static_cast<int>(i);
    const double scale = kParts / source.depth.at(pixel);
    // The numbers are positive, so cutting off rounds down.
    const auto x = static_cast<std::int32_t>(source.x.at(pixel) * scale + 0.5);
    const auto y = static_cast<std::int32_t>(source.y.at(pixel) * scale + 0.5);
    block.places[i] = (y >> kPartBits) * width + (x >> kPartBits);
    block.right[i] = static_cast<std::int16_t>(x & (kParts - 1));
    block.below[i] = static_cast<std::int16_t>(y & (kParts - 1));
  }
}

std::int16_t mix_pair(std::uint16_t pair, std::int16_t right) {
  const auto left = static_cast<std::int16_t>(kParts - right);
  return static_cast<std::int16_t>((pair & 255) * left + (pair >> 8) * right);
}

/// The source pixels, scattered over the image, are put side by side first, so that the sums are
/// vectors.
void mix_block(const Block& block, const std::uint8_t* plane, int width, std::uint8_t* into) {
  std::array<std::uint16_t, kSpan> upper;
  std::array<std::uint16_t, kSpan> lower;
  const std::size_t count = block.count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* const pixels = plane + block.places[i];
    upper[i] = read_pair(pixels);
    lower[i] = read_pair(pixels + width);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::int16_t above = mix_pair(upper[i], block.right[i]);
    const std::int16_t under = mix_pair(lower[i], block.right[i]);
    const auto of_above = static_cast<std::int16_t>(kParts - block.below[i]);
    const int sum = above * of_above + under * block.below[i];
    into[i] = static_cast<std::uint8_t>((sum + kParts * kParts / 2) >> (2 * kPartBits));
  }
}

/// Precondition: all pixels of `range` are mixed of pixels of the image.
void mix_inside(const Image& from, const RowSource& source, int y, Range range, Image& into) {
  Block block;
  for (int x = range.begin; x < range.end; x += kSpan) {
    block.count = static_cast<std::size_t>(std::min(kSpan, range.end - x));
    if (source.is_straight())
      find_straight(source, x, from.width, block);
    else
      find_in_perspective(source, x, from.width, block);
    for (int channel = 0; channel < from.channels; ++channel)
      mix_block(block, from.row(channel, 0), from.width, into.row(channel, y) + x);
  }
}

/// Applies any move, row by row.
void move_rows(const Image& from, const Matrix3& back, Color border, Image& into) {
  const Collage whole = collage_of(from);
  const EdgePainter edges(whole, border, into);
  for (int y = 0; y < into.height; ++y) {
    const RowSource source(back, y);
    const Range all{0, into.width};
    const Range inside = source.between(0, from.width - 1 - kInset, from.height - 1 - kInset, all);
    edges.paint_around(source, y, inside);
    if (inside.begin < inside.end) mix_inside(from, source, y, inside, into);
  }
}

/// Maps indices of pixels to those of their sources. Errors: std::logic_error.
Matrix3 back_of(const Matrix3& matrix) {
  // Between pixels' indices and points, where pixel 0 has its middle at 0.5.
  const Matrix3 to_corner{1, 0, 0.5, 0, 1, 0.5, 0, 0, 1};
  const Matrix3 to_pixel{1, 0, -0.5, 0, 1, -0.5, 0, 0, 1};
  return multiply(to_pixel, multiply(inverse(matrix), to_corner));
}

void require_pixels(ImageSize from, ImageSize into) {
  if (std::min({from.height, from.width, into.height, into.width}) <= 0)
    throw std::logic_error("an image without a pixel is moved");
}

}  // namespace

Matrix3 multiply(const Matrix3& first, const Matrix3& second) {
  Matrix3 product{};
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t column = 0; column < 3; ++column) {
      for (std::size_t i = 0; i < 3; ++i)
        product[3 * row + column] += first[3 * row + i] * second[3 * i + column];
    }
  }
  return product;
}

Matrix3 inverse(const Matrix3& m) {
  // Cofactors, from the two rows and columns after each.
  const auto minor = [&m](std::size_t row, std::size_t column) {
    const std::size_t below = 3 * ((row + 1) % 3);
    const std::size_t last = 3 * ((row + 2) % 3);
    const std::size_t right = (column + 1) % 3;
    const std::size_t end = (column + 2) % 3;
    return m[below + right] * m[last + end] - m[below + end] * m[last + right];
  };
  const double determinant = m[0] * minor(0, 0) + m[1] * minor(0, 1) + m[2] * minor(0, 2);
  if (!std::isfinite(determinant) || !std::isfinite(1 / determinant))
    throw std::logic_error("a matrix without an inverse moves an image");
  Matrix3 result{};
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t column = 0; column < 3; ++column)
      result[3 * row + column] = minor(column, row) / determinant;
  }
  return result;
}

void move_perspective(
    const Image& from, const Matrix3& matrix, ImageSize size, Color border, Image& into) {
  require_pixels(from.size(), size);
  const Matrix3 back = back_of(matrix);
  into.reshape(from.channels, size);
  if (is_axis_aligned(back)) return move_axis_aligned(collage_of(from), back, border, into);
  move_rows(from, back, border, into);
}

void move_perspective(
    const Collage& from, const Matrix3& matrix, ImageSize size, Color border, Image& into) {
  require_pixels(from.size, size);
  const Matrix3 back = back_of(matrix);
  into.reshape(from.channels, size);
  if (is_axis_aligned(back)) return move_axis_aligned(from, back, border, into);
  thread_local Image canvas;  // keeps its memory from one image to the next
  paint(from, canvas);
  move_rows(canvas, back, border, into);
}

}  // namespace ddp::worker
