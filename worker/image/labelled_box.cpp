#include "worker/image/labelled_box.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "worker/image/drawing.h"
#include "worker/image/geometry.h"

namespace ddp::worker {
namespace {

constexpr Color kInk{0, 0, 0};

/// A color for each class that people can tell from others; light enough for black letters.
Color color_of(std::size_t number) {
  constexpr Color kColors[] = {
      {255, 96, 96}, {64, 208, 64}, {96, 160, 255}, {255, 200, 0}, {255, 112, 255}, {0, 220, 220}};
  return kColors[number % std::size(kColors)];
}

int rounded(float edge) {
  return static_cast<int>(std::lround(edge));
}

}  // namespace

void draw_labelled_box(
    Image& image, const Box& box, std::size_t number, std::string_view text, int scale) {
  const Region region{rounded(box.top),
                      rounded(box.left),
                      rounded(box.bottom) - rounded(box.top),
                      rounded(box.right) - rounded(box.left)};
  const Color color = color_of(number);
  draw_rectangle(image, region, scale, color);
  if (text.empty()) return;
  // The label of a box that begins outside of the image is at the image's edge.
  const int top = std::max(region.top, 0);
  const int left = std::max(region.left, 0);
  const int width = static_cast<int>(text.size()) * kLetterWidth * scale;
  erase(image, {top, left, (kLetterHeight + 2) * scale, width + scale}, color);
  draw_text(image, top + scale, left + scale, scale, kInk, text);
}

}  // namespace ddp::worker
