#include "worker/image/letterbox.h"

#include <algorithm>
#include <cmath>

#include "worker/image/geometry.h"
#include "worker/image/resize.h"

namespace ddp::worker {
namespace {

double across(const Letterbox& letterbox) {
  return static_cast<double>(letterbox.resized.width) / letterbox.image.width;
}

double down(const Letterbox& letterbox) {
  return static_cast<double>(letterbox.resized.height) / letterbox.image.height;
}

}  // namespace

Letterbox fit_letterbox(ImageSize image, int side) {
  return fit_letterbox(image, ImageSize{side, side});
}

Letterbox fit_letterbox(ImageSize image, ImageSize frame) {
  ImageSize resized = resized_larger_side(image, std::max(frame.height, frame.width));
  if (resized.height > frame.height || resized.width > frame.width) {
    const double scale = std::min(static_cast<double>(frame.height) / image.height,
                                  static_cast<double>(frame.width) / image.width);
    const auto scaled = [scale](int side, int most) {
      return std::clamp(static_cast<int>(std::lround(side * scale)), 1, most);
    };
    resized = {scaled(image.height, frame.height), scaled(image.width, frame.width)};
  }
  return {image, resized, center_region(resized, frame)};
}

Box into_frame(const Box& box, const Letterbox& letterbox) {
  const auto x = [&](double edge) {
    return static_cast<float>(edge * across(letterbox) - letterbox.frame.left);
  };
  const auto y = [&](double edge) {
    return static_cast<float>(edge * down(letterbox) - letterbox.frame.top);
  };
  return {x(box.left), y(box.top), x(box.right), y(box.bottom)};
}

Box out_of_frame(const Box& box, const Letterbox& letterbox) {
  const auto x = [&](double edge) {
    return static_cast<float>((edge + letterbox.frame.left) / across(letterbox));
  };
  const auto y = [&](double edge) {
    return static_cast<float>((edge + letterbox.frame.top) / down(letterbox));
  };
  return {x(box.left), y(box.top), x(box.right), y(box.bottom)};
}

std::optional<Box> box_in_image(const Box& box, const Letterbox& letterbox) {
  return clip(out_of_frame(box, letterbox), letterbox.image);
}

}  // namespace ddp::worker
