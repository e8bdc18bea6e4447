#include "worker/image/labelled_box.h"

#include <cmath>
#include <iterator>

#include "worker/image/drawing.h"

namespace ddp::worker {
namespace {

/// One per class, told apart by people.
Color color_of(std::size_t number) {
  constexpr Color kColors[] = {
      {255, 64, 64}, {64, 200, 64}, {80, 140, 255}, {255, 200, 0}, {255, 80, 255}, {0, 220, 220}};
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
  draw_text(image, region.top + 2 * scale, region.left + 2 * scale, scale, color, text);
}

}  // namespace ddp::worker
