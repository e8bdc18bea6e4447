#include "worker/image/letterbox.h"

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
  const ImageSize resized = resized_larger_side(image, side);
  return {image, resized, center_region(resized, {side, side})};
}

Box into_square(const Box& box, const Letterbox& letterbox) {
  const auto x = [&](double edge) {
    return static_cast<float>(edge * across(letterbox) - letterbox.square.left);
  };
  const auto y = [&](double edge) {
    return static_cast<float>(edge * down(letterbox) - letterbox.square.top);
  };
  return {x(box.left), y(box.top), x(box.right), y(box.bottom)};
}

Box out_of_square(const Box& box, const Letterbox& letterbox) {
  const auto x = [&](double edge) {
    return static_cast<float>((edge + letterbox.square.left) / across(letterbox));
  };
  const auto y = [&](double edge) {
    return static_cast<float>((edge + letterbox.square.top) / down(letterbox));
  };
  return {x(box.left), y(box.top), x(box.right), y(box.bottom)};
}

}  // namespace ddp::worker
