#include "worker/data/augment/random_perspective.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "worker/data/augment/crops.h"
#include "worker/data/augment/mosaic.h"
#include "worker/data/augment/sample_image.h"
#include "worker/image/resize.h"

namespace ddp::worker {
namespace {

// Limits of a moved box that still counts as an object, as in the YOLO family.
constexpr float kLeastSide = 2;      // pixels
constexpr float kMaxRatio = 100;     // of its sides
constexpr double kMaxScale = 0.999;  // so that an image never shrinks to nothing

double radians(double degrees) {
  return degrees * (std::numbers::pi / 180);
}

/// The visible part of a box, unless too little of the object is left. That fraction refers to the
/// object's size after the move, not to the moved box: the box around a rotated object is larger.
std::optional<Box> seen_of(const Box& moved, ImageSize image) {
  const std::optional<Box> seen = clip(moved, image, kLeastOfBox);
  if (!seen) return {};
  const float width = seen->right - seen->left;
  const float height = seen->bottom - seen->top;
  if (std::min(width, height) < kLeastSide) return {};
  if (std::max(width, height) > kMaxRatio * std::min(width, height)) return {};
  return seen;
}

}  // namespace

RandomPerspective::RandomPerspective(const AugmentRequest& request)
    : most_{.degrees = request.args.real("degrees", 0, 180, 0),
            .translate = request.args.real("translate", 0, 1, 0.1),
            .scale = request.args.real("scale", 0, kMaxScale, 0.5),
            .shear = request.args.real("shear", 0, 80, 0),
            .perspective = request.args.real("perspective", 0, 0.01, 0),
            .size = side_of(request.args, request.data)},
      takes_any_size_(has_mosaic(request.before)) {}

// The product of these moves: the image's middle to (0, 0); perspective; rotation and scale; shear;
// then to near the middle of the new image.
Matrix3 RandomPerspective::draw_matrix(const Ranges& most, ImageSize image, Random& random) {
  const Matrix3 center{1, 0, -0.5 * image.width, 0, 1, -0.5 * image.height, 0, 0, 1};
  Matrix3 perspective = kIdentity3;
  perspective[6] = random.within(most.perspective);
  perspective[7] = random.within(most.perspective);
  const double angle = radians(random.within(most.degrees));
  const double scale = random.uniform(1 - most.scale, 1 + most.scale);
  const double cosine = scale * std::cos(angle);
  const double sine = scale * std::sin(angle);
  const Matrix3 rotation{cosine, sine, 0, -sine, cosine, 0, 0, 0, 1};
  Matrix3 shear = kIdentity3;
  shear[1] = std::tan(radians(random.within(most.shear)));
  shear[3] = std::tan(radians(random.within(most.shear)));
  Matrix3 shift = kIdentity3;
  shift[2] = most.size * (0.5 + random.within(most.translate));
  shift[5] = most.size * (0.5 + random.within(most.translate));
  return multiply(shift, multiply(shear, multiply(rotation, multiply(perspective, center))));
}

void RandomPerspective::operator()(Sample& sample, Random& random, const Source& /*source*/) const {
  thread_local Array before;  // keeps its memory from one sample to the next
  if (!takes_any_size_) {
    SampleImage image(sample);
    resize_to(image, resized_larger_side(image.image().size(), most_.size));
  }
  std::swap(before, sample.input);
  move(collage_of(before), random, sample);
}

void RandomPerspective::move(const Collage& from, Random& random, Sample& sample) const {
  const ImageSize size{most_.size, most_.size};
  const Matrix3 matrix = draw_matrix(most_, from.size, random);
  make_image(sample, [&](Image& into) { move_perspective(from, matrix, size, kGrey, into); });
  move_boxes(sample, [&](const Box& box) -> std::optional<Box> {
    const std::optional<Box> moved = move_perspective(box, matrix);
    return moved ? seen_of(*moved, size) : std::nullopt;
  });
}

}  // namespace ddp::worker
