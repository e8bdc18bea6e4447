#include "worker/image/perspective.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ddp::worker {
namespace {

// Parts of a pixel are counted in 128ths: a sum of two of them fits into 16 bits.
constexpr int kPartBits = 7;
constexpr int kParts = 1 << kPartBits;
// Pixels of a row that are treated together: what is known of them stays in the cache.
constexpr int kBlock = 64;
// What is mixed of pixels inside alone ends that much before the last one, whatever rounding does.
constexpr double kLess = 1.0 / 64;

static_assert(std::endian::native == std::endian::little, "two pixels are read as one number");

/// What goes straight along a row: its value at pixel x.
struct Line {
  double slope = 0;
  double start = 0;

  [[nodiscard]] double at(int x) const { return slope * x + start; }
  Line operator+(const Line& other) const { return {slope + other.slope, start + other.start}; }
  Line operator-(const Line& other) const { return {slope - other.slope, start - other.start}; }
  Line operator*(double factor) const { return {slope * factor, start * factor}; }
};

/// Pixels of a row, from `begin` to before `end`.
struct Range {
  int begin = 0;
  int end = 0;
};

/// The part of a range in which a line is above 0.
Range above_zero(const Line& line, Range range) {
  if (line.slope == 0) return line.start > 0 ? range : Range{range.begin, range.begin};
  const double zero = std::clamp(
      -line.start / line.slope, static_cast<double>(range.begin), static_cast<double>(range.end));
  if (line.slope > 0)
    range.begin = static_cast<int>(std::ceil(zero));
  else
    range.end = static_cast<int>(std::ceil(zero));
  return range;
}

/// Where the pixels of one row come from, in pixels: 0 is the middle of the first one. They are x /
/// depth and y / depth.
struct Way {
  Line x;
  Line y;
  Line depth;

  Way(const Matrix3& m, int row)
      : x{m[0], m[1] * row + m[2]}, y{m[3], m[4] * row + m[5]}, depth{m[6], m[7] * row + m[8]} {}

  [[nodiscard]] bool is_straight() const { return depth.slope == 0; }

  /// Pixels that come from between `first` and `last`, given as pixels of both sides. It is in
  /// front of the horizon, too: where 0 < x - first * depth and 0 < last * depth - x, depth is
  /// positive.
  [[nodiscard]] Range between(double first, double last_x, double last_y, Range range) const {
    for (const Line& line :
         {x - depth * first, depth * last_x - x, y - depth * first, depth * last_y - y})
      range = above_zero(line, range);
    return range;
  }
};

/// Pixels side by side of one row: their upper left pixel, and how much of its neighbours is in
/// them.
struct Block {
  std::size_t count = 0;
  std::array<std::int32_t, kBlock> places;
  std::array<std::int16_t, kBlock> right;
  std::array<std::int16_t, kBlock> below;
};

/// A coordinate along a straight way, in whole numbers.
class Steps {
 public:
  explicit Steps(const Line& line, const Line& depth, int x)
      : at_(whole(line.at(x) / depth.start + 0.5 / kParts)),
        step_(whole(line.slope / depth.start)) {}

  [[nodiscard]] std::int32_t pixel() const { return static_cast<std::int32_t>(at_ >> kBits); }
  [[nodiscard]] std::int16_t part() const {
    return static_cast<std::int16_t>(at_ >> (kBits - kPartBits) & (kParts - 1));
  }
  void advance() { at_ += step_; }

 private:
  static constexpr int kBits = 32;  // of the fraction
  // A step of more than that leaves every image.
  static std::int64_t whole(double number) {
    constexpr double kMost = 0x1p30;
    return static_cast<std::int64_t>(std::clamp(number, -kMost, kMost) * 0x1p32);
  }

  std::int64_t at_;
  std::int64_t step_;
};

/// Precondition: all that the pixels are mixed of is inside of an image of that width.
void find_straight(const Way& way, int first, int width, Block& block) {
  Steps x(way.x, way.depth, first);
  Steps y(way.y, way.depth, first);
  for (std::size_t i = 0; i < block.count; ++i) {
    block.places[i] = y.pixel() * width + x.pixel();
    block.right[i] = x.part();
    block.below[i] = y.part();
    x.advance();
    y.advance();
  }
}

/// In 128ths of a pixel, to the nearest.
std::int64_t parts_of(double coordinate) {
  return static_cast<std::int64_t>(std::floor(coordinate * kParts + 0.5));
}

void find_in_perspective(const Way& way, int first, int width, Block& block) {
  for (std::size_t i = 0; i < block.count; ++i) {
    const int pixel = first + static_cast<int>(i);
    const double scale = kParts / way.depth.at(pixel);
    // Positive, so that cutting off rounds down.
    const auto x = static_cast<std::int32_t>(way.x.at(pixel) * scale + 0.5);
    const auto y = static_cast<std::int32_t>(way.y.at(pixel) * scale + 0.5);
    block.places[i] = (y >> kPartBits) * width + (x >> kPartBits);
    block.right[i] = static_cast<std::int16_t>(x & (kParts - 1));
    block.below[i] = static_cast<std::int16_t>(y & (kParts - 1));
  }
}

/// Two pixels side by side, the left one in the lower byte.
std::uint16_t read_pair(const std::uint8_t* pixels) {
  std::uint16_t pair = 0;
  std::memcpy(&pair, pixels, sizeof pair);
  return pair;
}

std::int16_t mix_pair(std::uint16_t pair, std::int16_t right) {
  const auto left = static_cast<std::int16_t>(kParts - right);
  return static_cast<std::int16_t>((pair & 255) * left + (pair >> 8) * right);
}

/// What is read from all over the image is put side by side first, so that the sums are vectors.
void mix_block(const Block& block, const std::uint8_t* plane, int width, std::uint8_t* into) {
  std::array<std::uint16_t, kBlock> upper;
  std::array<std::uint16_t, kBlock> lower;
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

/// Two rows in one, in 128ths.
void mix_rows(const std::uint8_t* upper,
              const std::uint8_t* lower,
              std::int16_t below,
              std::size_t count,
              std::int16_t* into) {
  const auto above = static_cast<std::int16_t>(kParts - below);
  for (std::size_t i = 0; i < count; ++i)
    into[i] = static_cast<std::int16_t>(upper[i] * above + lower[i] * below);
}

/// Eight pixels, each of two numbers side by side and their weights.
void mix_pairs(const std::int32_t* pairs, const std::int16_t* weights, std::uint8_t* into) {
#ifdef __SSE2__
  const auto load = [](const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  };
  const __m128i half = _mm_set1_epi32(kParts * kParts / 2);
  const auto four = [&](std::size_t first) {
    const __m128i sums = _mm_madd_epi16(load(pairs + first), load(weights + 2 * first));
    return _mm_srai_epi32(_mm_add_epi32(sums, half), 2 * kPartBits);
  };
  const __m128i sums = _mm_packs_epi32(four(0), four(4));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(into), _mm_packus_epi16(sums, sums));
#else
  for (std::size_t i = 0; i < 8; ++i) {
    const auto left = static_cast<std::int16_t>(pairs[i] & 0xffff);
    const auto right = static_cast<std::int16_t>(pairs[i] >> 16);
    const int sum = left * weights[2 * i] + right * weights[2 * i + 1];
    into[i] = static_cast<std::uint8_t>((sum + kParts * kParts / 2) >> (2 * kPartBits));
  }
#endif
}

/// What all rows take where rows stay rows.
struct Columns {
  Range inside;                       // pixels that are mixed of pixels of the image alone
  std::vector<std::int32_t> places;   // the left one of the two columns of each
  std::vector<std::int16_t> weights;  // two for each, in 128ths
  int first = 0;                      // column that is taken
  std::size_t count = 0;              // of columns that are
};

/// What belongs to one row at a time.
struct Rows {
  std::vector<std::int16_t> mixed;  // of two rows, at each column
  std::vector<std::int32_t> pairs;  // two columns side by side, for each pixel
  std::vector<std::uint8_t> bytes;

  explicit Rows(const Columns& columns)
      : mixed(static_cast<std::size_t>(columns.first) + columns.count),
        pairs(columns.places.size()),
        bytes(columns.places.size()) {}
};

// Pixels that are mixed at once: behind the last one there is room for as many.
constexpr std::size_t kAtOnce = 8;

/// Mixes the pixels of a mixed row. What is read from all over it is put side by side first.
void mix_columns(const Columns& columns, Rows& rows) {
  const std::size_t count = columns.places.size();
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(&rows.pairs[i], &rows.mixed[static_cast<std::size_t>(columns.places[i])], 4);
  for (std::size_t i = 0; i < count; i += kAtOnce)
    mix_pairs(&rows.pairs[i], &columns.weights[2 * i], &rows.bytes[i]);
}

/// One move of one image.
class Mover {
 public:
  Mover(const Image& from, const Matrix3& back, Color border, Image& into)
      : from_(from), back_(back), border_(border), into_(into) {}

  void move() const {
    const bool is_upright = back_[1] == 0 && back_[3] == 0 && back_[6] == 0 && back_[7] == 0;
    if (is_upright && back_[8] > 0) return move_upright();
    for (int y = 0; y < into_.height; ++y)
      move_row(y);
  }

 private:
  /// Where rows stay rows, all of them take the same columns: what is known of those is kept, and
  /// two rows are mixed first. Bit for bit the same pixels, sooner.
  void move_upright() const {
    const Columns columns = find_columns();
    Rows rows(columns);
    for (int y = 0; y < into_.height; ++y) {
      const Way way(back_, y);
      const double from_row = way.y.start / way.depth.start;
      const bool is_inside = from_row >= 0 && from_row <= from_.height - 1 - kLess;
      if (!is_inside || columns.places.empty()) {
        move_row(y);
        continue;
      }
      paint_around(way, y, columns.inside);
      for (int channel = 0; channel < from_.channels; ++channel)
        mix_upright(channel, parts_of(from_row), columns, rows, into_.row(channel, y));
    }
  }

  [[nodiscard]] Columns find_columns() const {
    const Way way(back_, 0);
    const Line before_last = way.depth * (from_.width - 1 - kLess) - way.x;
    Columns columns;
    columns.inside = above_zero(way.x, above_zero(before_last, {0, into_.width}));
    Steps step(way.x, way.depth, columns.inside.begin);
    for (int x = columns.inside.begin; x < columns.inside.end; ++x, step.advance()) {
      columns.places.push_back(step.pixel());
      columns.weights.push_back(static_cast<std::int16_t>(kParts - step.part()));
      columns.weights.push_back(step.part());
    }
    if (columns.places.empty()) return columns;
    // The other way round in a mirrored image.
    const std::pair<int, int> ends = std::minmax(columns.places.front(), columns.places.back());
    columns.first = ends.first;
    columns.count = static_cast<std::size_t>(ends.second - ends.first) + 2;
    const std::size_t whole = (columns.places.size() + kAtOnce - 1) / kAtOnce * kAtOnce;
    columns.places.resize(whole, columns.first);
    columns.weights.resize(2 * whole);
    return columns;
  }

  void mix_upright(int channel,
                   std::int64_t from_row,
                   const Columns& columns,
                   Rows& rows,
                   std::uint8_t* into) const {
    const auto row = static_cast<int>(from_row >> kPartBits);
    mix_rows(from_.row(channel, row) + columns.first,
             from_.row(channel, row + 1) + columns.first,
             static_cast<std::int16_t>(from_row & (kParts - 1)),
             columns.count,
             rows.mixed.data() + columns.first);
    mix_columns(columns, rows);
    std::memcpy(into + columns.inside.begin,
                rows.bytes.data(),
                static_cast<std::size_t>(columns.inside.end - columns.inside.begin));
  }

  void move_row(int y) const {
    const Way way(back_, y);
    const Range all{0, into_.width};
    const Range inside = way.between(0, from_.width - 1 - kLess, from_.height - 1 - kLess, all);
    paint_around(way, y, inside);
    if (inside.begin < inside.end) mix_inside(way, y, inside);
  }

  /// All of a row but what is inside: there the border is, and between them pixels are mixed with
  /// it.
  void paint_around(const Way& way, int y, const Range& inside) const {
    const Range near = way.between(-1, from_.width, from_.height, {0, into_.width});
    const int end = std::max(near.begin, near.end);
    const bool has_inside = inside.begin < inside.end;
    paint(y, 0, near.begin);
    mix_edge(way, y, near.begin, has_inside ? inside.begin : end);
    if (has_inside) mix_edge(way, y, inside.end, end);
    paint(y, end, into_.width);
  }

  void paint(int y, int begin, int end) const {
    for (int channel = 0; channel < into_.channels; ++channel) {
      std::uint8_t* const row = into_.row(channel, y);
      std::fill(row + begin, row + end, border_[static_cast<std::size_t>(channel)]);
    }
  }

  void mix_inside(const Way& way, int y, Range range) const {
    Block block;
    for (int x = range.begin; x < range.end; x += kBlock) {
      block.count = static_cast<std::size_t>(std::min(kBlock, range.end - x));
      if (way.is_straight())
        find_straight(way, x, from_.width, block);
      else
        find_in_perspective(way, x, from_.width, block);
      for (int channel = 0; channel < from_.channels; ++channel)
        mix_block(block, from_.row(channel, 0), from_.width, into_.row(channel, y) + x);
    }
  }

  /// Pixel by pixel: there are few of them.
  void mix_edge(const Way& way, int y, int begin, int end) const {
    for (int x = begin; x < end; ++x) {
      const double depth = way.depth.at(x);
      const std::int64_t across = parts_of(way.x.at(x) / depth);
      const std::int64_t down = parts_of(way.y.at(x) / depth);
      for (int channel = 0; channel < from_.channels; ++channel) {
        const auto pixel = [&](std::int64_t column, std::int64_t row) -> std::int64_t {
          const bool is_there =
              column >= 0 && row >= 0 && column < from_.width && row < from_.height;
          return is_there ? from_.row(channel, static_cast<int>(row))[column]
                          : border_[static_cast<std::size_t>(channel)];
        };
        const std::int64_t column = across >> kPartBits;
        const std::int64_t row = down >> kPartBits;
        const std::int64_t right = across & (kParts - 1);
        const std::int64_t below = down & (kParts - 1);
        const std::int64_t upper =
            pixel(column, row) * (kParts - right) + pixel(column + 1, row) * right;
        const std::int64_t lower =
            pixel(column, row + 1) * (kParts - right) + pixel(column + 1, row + 1) * right;
        const std::int64_t sum = upper * (kParts - below) + lower * below;
        into_.row(channel, y)[x] =
            static_cast<std::uint8_t>((sum + kParts * kParts / 2) >> (2 * kPartBits));
      }
    }
  }

  const Image& from_;
  const Matrix3 back_;
  const Color border_;
  Image& into_;
};

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
  // Cofactors, by the two rows and columns after each.
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
  if (from.bytes.empty() || size.height <= 0 || size.width <= 0)
    throw std::logic_error("an image without a pixel is moved");
  into.reshape(from.channels, size);
  // From points of pixels' corners to numbers of pixels.
  const Matrix3 to_corner{1, 0, 0.5, 0, 1, 0.5, 0, 0, 1};
  const Matrix3 to_pixel{1, 0, -0.5, 0, 1, -0.5, 0, 0, 1};
  const Mover mover(from, multiply(to_pixel, multiply(inverse(matrix), to_corner)), border, into);
  mover.move();
}

}  // namespace ddp::worker
