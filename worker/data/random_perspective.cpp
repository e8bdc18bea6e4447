#include "worker/data/random_perspective.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "worker/data/crops.h"
#include "worker/data/mosaic.h"
#include "worker/data/sample_image.h"
#include "worker/image/perspective.h"
#include "worker/image/resize.h"

namespace ddp::worker {
namespace {

// What of a moved box is still an object, as in the YOLO family.
constexpr float kLeastSide = 2;       // pixels
constexpr float kMostRatio = 100;     // of its sides
constexpr float kMostScale = 0.999F;  // so that the smallest image is still one

/// How far an image is moved at most.
struct Ranges {
  double degrees = 0;      // to both sides
  double translate = 0;    // a share of the new size
  double scale = 0;        // 1 plus or minus it
  double shear = 0;        // degrees
  double perspective = 0;  // change of depth per pixel
  int size = 0;
};

double radians(double degrees) {
  return degrees * (std::numbers::pi / 180);
}

double draw(Random& random, double most) {
  return random.uniform(-most, most);
}

/// The product of the moves: the middle of the image to (0, 0), perspective, rotation and scale,
/// shear, and to near the middle of the new image.
Matrix3 draw_matrix(const Ranges& most, ImageSize image, Random& random) {
  const Matrix3 center{1, 0, -0.5 * image.width, 0, 1, -0.5 * image.height, 0, 0, 1};
  Matrix3 perspective = kIdentity3;
  perspective[6] = draw(random, most.perspective);
  perspective[7] = draw(random, most.perspective);
  const double angle = radians(draw(random, most.degrees));
  const double scale = random.uniform(1 - most.scale, 1 + most.scale);
  const double cosine = scale * std::cos(angle);
  const double sine = scale * std::sin(angle);
  const Matrix3 rotation{cosine, sine, 0, -sine, cosine, 0, 0, 0, 1};
  Matrix3 shear = kIdentity3;
  shear[1] = std::tan(radians(draw(random, most.shear)));
  shear[3] = std::tan(radians(draw(random, most.shear)));
  Matrix3 shift = kIdentity3;
  shift[2] = most.size * (0.5 + draw(random, most.translate));
  shift[5] = most.size * (0.5 + draw(random, most.translate));
  return multiply(shift, multiply(shear, multiply(rotation, multiply(perspective, center))));
}

/// What is left of a box, unless that tells nothing of the object any more. The share is that of
/// the box as large as the object became: a turned box grows around it.
std::optional<Box> seen_of(const Box& moved, ImageSize image) {
  const std::optional<Box> seen = clip(moved, image, kLeastOfBox);
  if (!seen) return {};
  const float width = seen->right - seen->left;
  const float height = seen->bottom - seen->top;
  if (std::min(width, height) < kLeastSide) return {};
  if (std::max(width, height) > kMostRatio * std::min(width, height)) return {};
  return seen;
}

}  // namespace

Augment make_random_perspective(const AugmentRequest& request) {
  const Args& args = request.args;
  const Ranges most{.degrees = args.real("degrees", 0, 180, 0),
                    .translate = args.real("translate", 0, 1, 0.1),
                    .scale = args.real("scale", 0, kMostScale, 0.5),
                    .shear = args.real("shear", 0, 80, 0),
                    .perspective = args.real("perspective", 0, 0.01, 0),
                    .size = side_of(args, request.data)};
  const bool is_fitted = !has_mosaic(request.before);
  return [most, is_fitted](Sample& sample, Random& random, const Source&) {
    SampleImage image(sample);
    if (is_fitted) resize_to(image, resized_larger_side(image.image().size(), most.size));
    const ImageSize size{most.size, most.size};
    const Matrix3 matrix = draw_matrix(most, image.image().size(), random);
    image.replace(
        [&](const Image& from, Image& into) { move_perspective(from, matrix, size, kGrey, into); });
    image.move_boxes([&](const Box& box) -> std::optional<Box> {
      const std::optional<Box> moved = move_perspective(box, matrix);
      return moved ? seen_of(*moved, size) : std::nullopt;
    });
  };
}

}  // namespace ddp::worker
