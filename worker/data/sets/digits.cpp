#include "worker/data/sets/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "common/error.h"

namespace ddp::worker {
namespace {

// Everything below uses + - * / and sqrt only, which IEEE 754 fixes to the last bit (the file is
// compiled without fused multiply-add), so that a seed draws the same set on every machine.

struct Point {
  double x;
  double y;
};

struct Stroke {
  bool smooth;  // a curve through the points, else straight lines
  std::vector<Point> points;
};

using Glyph = std::vector<Stroke>;

// The shapes of a digit, in a unit square, y down. People write some digits in more than one way.
const std::vector<Glyph>& shapes_of(std::size_t digit) {
  // clang-format off
  static const std::array<std::vector<Glyph>, 10> kShapes{{
      {{{true, {{.5, .1}, {.3, .2}, {.24, .5}, {.31, .8}, {.5, .9}, {.69, .8}, {.76, .5}, {.7, .2},
                {.5, .1}}}}},
      {{{false, {{.5, .1}, {.5, .9}}}},
       {{false, {{.34, .27}, {.52, .1}, {.52, .9}}}},
       {{false, {{.34, .27}, {.52, .1}, {.52, .9}}}, {false, {{.34, .9}, {.7, .9}}}}},
      {{{true, {{.25, .3}, {.34, .14}, {.53, .09}, {.72, .2}, {.7, .4}, {.5, .64}, {.25, .89}}},
        {false, {{.25, .89}, {.78, .88}}}},
       {{true, {{.25, .28}, {.4, .1}, {.64, .14}, {.68, .38}, {.48, .7}, {.3, .87}, {.24, .76},
                {.36, .72}, {.54, .87}, {.78, .86}}}}},
      {{{true, {{.27, .18}, {.46, .09}, {.68, .17}, {.68, .36}, {.43, .47}}},
        {true, {{.43, .47}, {.7, .55}, {.74, .76}, {.5, .91}, {.25, .82}}}},
       {{false, {{.26, .12}, {.71, .12}, {.45, .43}}},
        {true, {{.45, .43}, {.68, .5}, {.74, .72}, {.52, .91}, {.25, .82}}}}},
      {{{false, {{.36, .1}, {.22, .56}, {.8, .56}}}, {false, {{.64, .28}, {.6, .9}}}},
       {{false, {{.62, .9}, {.62, .1}, {.2, .64}, {.8, .64}}}}},
      {{{false, {{.73, .12}, {.33, .12}, {.29, .45}}},
        {true, {{.29, .45}, {.5, .39}, {.72, .51}, {.73, .73}, {.52, .9}, {.24, .82}}}}},
      {{{true, {{.67, .12}, {.43, .26}, {.28, .54}, {.31, .8}, {.5, .9}, {.71, .78}, {.69, .58},
                {.5, .5}, {.32, .63}}}}},
      {{{false, {{.22, .13}, {.77, .13}, {.42, .9}}}},
       {{false, {{.22, .13}, {.77, .13}, {.42, .9}}}, {false, {{.36, .5}, {.7, .5}}}}},
      {{{true, {{.5, .48}, {.31, .32}, {.36, .15}, {.5, .1}, {.66, .16}, {.68, .32}, {.5, .48},
                {.31, .62}, {.28, .8}, {.5, .9}, {.72, .8}, {.69, .62}, {.5, .48}}}}},
      {{{true, {{.7, .3}, {.56, .49}, {.35, .44}, {.3, .24}, {.48, .1}, {.67, .17}, {.71, .36},
                {.68, .62}, {.58, .9}}}},
       {{true, {{.68, .26}, {.5, .1}, {.31, .22}, {.35, .45}, {.55, .48}, {.68, .26}}},
        {false, {{.68, .26}, {.66, .9}}}}},
  }};
  // clang-format on
  return kShapes[digit];
}

// splitmix64. Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27) * 0x94d049bb133111ebU;
  return x ^ x >> 31;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() { return mix(state_ += 0x9e3779b97f4a7c15U); }
  /// Uniform in [low, high): 53 bits, exact on every machine.
  double real(double low, double high) {
    return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
  }
  /// Around 0 within +-width, more often near 0 (a triangle).
  double around(double width) {
    const double first = real(-width / 2, width / 2);
    return first + real(-width / 2, width / 2);
  }
  /// The bias of the remainder is below 2^-50 for so few choices.
  std::size_t below(std::size_t count) { return bits() % count; }

 private:
  std::uint64_t state_;
};

// How one writer moves the pen: a linear map, a bend, and the place of the digit, in pixels.
struct Hand {
  explicit Hand(Random& random) {
    const double size = random.real(16, 23);
    const double width = size * random.real(.75, 1.15);
    const double half = random.around(.22);  // tangent of half the angle: +-25 degrees
    const double cosine = (1 - half * half) / (1 + half * half);
    const double sine = 2 * half / (1 + half * half);
    const double slant = random.around(.4);
    xx = width * cosine;
    xy = size * (-sine + slant * cosine);
    yx = width * sine;
    yy = size * (cosine + slant * sine);
    for (double& bend : bends)
      bend = random.around(.35);
    x0 = kDigitSide / 2. + random.around(3.5);
    y0 = kDigitSide / 2. + random.around(3.5);
  }

  [[nodiscard]] Point place(Point p) const {
    const double u = p.x - .5;
    const double v = p.y - .5;
    const double bent_u = u + bends[0] * v * v + bends[1] * u * v;
    const double bent_v = v + bends[2] * u * u + bends[3] * u * v;
    return {x0 + xx * bent_u + xy * bent_v, y0 + yx * bent_u + yy * bent_v};
  }

  double xx, xy, yx, yy, x0, y0;
  std::array<double, 4> bends{};
};

constexpr std::size_t kPixels = kDigitSide * kDigitSide;
using Canvas = std::array<double, kPixels>;  // ink, 0 to 1

// A pen of round tip: full ink within its radius, none at radius + softness.
struct Pen {
  double radius;
  double softness;
  double ink;
};

void draw_line(Canvas& canvas, Point from, Point to, const Pen& pen) {
  const double reach = pen.radius + pen.softness;
  const auto first = [&](double a, double b) {
    return static_cast<int>(std::clamp(std::min(a, b) - reach, 0., double{kDigitSide}));
  };
  const auto last = [&](double a, double b) {
    return static_cast<int>(std::clamp(std::max(a, b) + reach + 1, 0., double{kDigitSide}));
  };
  const double dx = to.x - from.x;
  const double dy = to.y - from.y;
  const double length2 = dx * dx + dy * dy;
  for (int row = first(from.y, to.y); row < last(from.y, to.y); ++row) {
    for (int column = first(from.x, to.x); column < last(from.x, to.x); ++column) {
      const double x = column + .5 - from.x;
      const double y = row + .5 - from.y;
      const double along = length2 > 0 ? std::clamp((x * dx + y * dy) / length2, 0., 1.) : 0;
      const double off_x = x - along * dx;
      const double off_y = y - along * dy;
      const double distance = std::sqrt(off_x * off_x + off_y * off_y);
      const double ink = pen.ink * std::clamp((reach - distance) / pen.softness, 0., 1.);
      double& pixel = canvas[static_cast<std::size_t>(row * kDigitSide + column)];
      pixel = std::max(pixel, ink);
    }
  }
}

// A point of the curve that goes through b and c (Catmull-Rom), t in 0..1 between them.
Point curve(Point a, Point b, Point c, Point d, double t) {
  const auto blend = [t](double p, double q, double r, double s) {
    return q + t / 2 * (r - p + t * (2 * p - 5 * q + 4 * r - s + t * (3 * (q - r) + s - p)));
  };
  return {blend(a.x, b.x, c.x, d.x), blend(a.y, b.y, c.y, d.y)};
}

void draw_stroke(Canvas& canvas, const Stroke& stroke, const Hand& hand, const Pen& pen) {
  const std::vector<Point>& points = stroke.points;
  const int pieces = stroke.smooth ? 4 : 2;  // straight lines bend with the hand, too
  Point from = hand.place(points.front());
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const Point before = points[i == 0 ? 0 : i - 1];
    const Point after = points[std::min(i + 2, points.size() - 1)];
    for (int piece = 1; piece <= pieces; ++piece) {
      const double t = static_cast<double>(piece) / pieces;
      const Point to =
          hand.place(stroke.smooth ? curve(before, points[i], points[i + 1], after, t)
                                   : Point{points[i].x + t * (points[i + 1].x - points[i].x),
                                           points[i].y + t * (points[i + 1].y - points[i].y)});
      draw_line(canvas, from, to, pen);
      from = to;
    }
  }
}

// The writer's unsteadiness: every point of the shape moves a little.
Glyph shake(Glyph glyph, Random& random) {
  for (Stroke& stroke : glyph) {
    for (Point& point : stroke.points) {
      point.x += random.around(.05);
      point.y += random.around(.05);
    }
  }
  return glyph;
}

// A scrap of a neighbouring stroke near the border.
void draw_scrap(Canvas& canvas, Random& random, const Pen& pen) {
  const double at = random.real(0, kDigitSide);
  const double depth = random.real(0, 3);
  const double edge = random.below(2) == 0 ? depth : kDigitSide - depth;
  const double length = random.around(9);
  const double lean = random.around(4);
  if (random.below(2) == 0)
    draw_line(canvas, {at, edge}, {at + length, edge + lean}, pen);
  else
    draw_line(canvas, {edge, at}, {edge + lean, at + length}, pen);
}

// Paper, ink and sensor noise.
void develop(const Canvas& canvas, Random& random, std::span<std::uint8_t, kPixels> pixels) {
  const double paper = random.real(0, 30);
  const double slope_x = random.around(20) / kDigitSide;
  const double slope_y = random.around(20) / kDigitSide;
  const double contrast = random.real(110, 225);
  const double noise = random.real(4, 34);
  for (std::size_t i = 0; i < kPixels; ++i) {
    const double x = static_cast<double>(i % kDigitSide) - kDigitSide / 2.;
    const double y = static_cast<double>(i / kDigitSide) - kDigitSide / 2.;
    const double light =
        paper + slope_x * x + slope_y * y + contrast * canvas[i] + random.around(noise);
    pixels[i] = static_cast<std::uint8_t>(std::clamp(light, 0., 255.));
  }
}

}  // namespace

std::uint8_t draw_digit(std::uint64_t seed,
                        DigitsSplit split,
                        std::int64_t index,
                        std::span<std::uint8_t, kPixels> pixels) {
  Random random(
      mix(mix(mix(seed) + static_cast<std::uint64_t>(split)) + static_cast<std::uint64_t>(index)));
  const std::size_t digit = random.below(10);
  const std::vector<Glyph>& shapes = shapes_of(digit);
  const Glyph glyph = shake(shapes[random.below(shapes.size())], random);
  const Hand hand(random);
  const double softness = random.real(.6, 1.4);
  const Pen pen{.radius = random.real(.4, 1.7), .softness = softness, .ink = 1};
  Canvas canvas{};
  for (const Stroke& stroke : glyph)
    draw_stroke(canvas, stroke, hand, pen);
  for (std::size_t scraps = random.below(3); scraps > 0; --scraps)
    draw_scrap(canvas, random, {.radius = pen.radius, .softness = softness, .ink = .8});
  develop(canvas, random, pixels);
  return static_cast<std::uint8_t>(digit);
}

ImageSet draw_digits(std::uint64_t seed, DigitsSplit split, std::int64_t count) {
  const bool training = split == DigitsSplit::train;
  if (count < 1) {
    throw UsageError(std::string("data.") + (training ? "train" : "test") + "_size=" +
                     std::to_string(count) + ": digits are drawn from 1 on. Give at least 1.");
  }
  ImageSet set{.name = training ? "digits train" : "digits test",
               .count = count,
               .channels = 1,
               .height = kDigitSide,
               .width = kDigitSide,
               .classes = 10,
               .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(count) * kPixels),
               .labels = std::vector<std::uint8_t>(static_cast<std::size_t>(count)),
               .mean = {0.163F},
               .standard_deviation = {0.23F}};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t place = static_cast<std::size_t>(i);
    const std::span<std::uint8_t, kPixels> image(set.pixels.data() + place * kPixels, kPixels);
    set.labels[place] = draw_digit(seed, split, i, image);
  }
  return set;
}

}  // namespace ddp::worker
