#include "worker/data/augment/colors.h"

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "worker/data/augment/sample_image.h"
#include "worker/image/affine.h"
#include "worker/image/color.h"
#include "worker/image/hsv.h"
#include "worker/image/levels.h"

namespace ddp::worker {
namespace {

constexpr int kMagnitudes = 30;  // the largest

/// One operation of RandAugment, at a magnitude from 0 to 1 of its range. A signed operation gets
/// either sign at random.
struct Operation {
  enum class Kind { color, move };
  const char* name;
  Kind kind;
  bool is_signed;
  void (*color)(Image& image, double magnitude);
  Affine (*move)(ImageSize image, double magnitude);
};

Operation color(const char* name, bool is_signed, void (*change)(Image&, double)) {
  return {name, Operation::Kind::color, is_signed, change, nullptr};
}

Operation move(const char* name, Affine (*affine)(ImageSize, double)) {
  return {name, Operation::Kind::move, true, nullptr, affine};
}

void sharpen(Image& image, double factor) {
  thread_local Image spare;
  adjust_sharpness(image, factor, spare);
  std::swap(image, spare);
}

double degrees(double factor) {
  return std::atan(factor) * 180 / std::numbers::pi;
}

/// With torchvision's ranges. Source: torchvision.transforms.v2.RandAugment.
const std::array<Operation, 14>& operations() {
  static const std::array<Operation, 14> all{
      color("identity", false, [](Image&, double) {}),
      move("shear-x",
           [](ImageSize, double m) {
             return Affine{.shear = {degrees(0.3 * m), 0}};
           }),
      move("shear-y",
           [](ImageSize, double m) {
             return Affine{.shear = {0, degrees(0.3 * m)}};
           }),
      move("translate-x",
           [](ImageSize image, double m) {
             return Affine{.translate = {150.0 / 331 * image.width * m, 0}};
           }),
      move("translate-y",
           [](ImageSize image, double m) {
             return Affine{.translate = {0, 150.0 / 331 * image.height * m}};
           }),
      move("rotate", [](ImageSize, double m) { return rotation(30 * m); }),
      color("brightness",
            true,
            [](Image& image, double m) { adjust_brightness(image, 1 + 0.9 * m); }),
      color("saturation",
            true,
            [](Image& image, double m) { adjust_saturation(image, 1 + 0.9 * m); }),
      color("contrast", true, [](Image& image, double m) { adjust_contrast(image, 1 + 0.9 * m); }),
      color("sharpness", true, [](Image& image, double m) { sharpen(image, 1 + 0.9 * m); }),
      color("posterize",
            false,
            [](Image& image, double m) {
              posterize(image, 8 - static_cast<int>(std::lround(4 * m)));
            }),
      color("solarize", false, [](Image& image, double m) { solarize(image, 255 * (1 - m)); }),
      color("autocontrast", false, [](Image& image, double) { autocontrast(image); }),
      color("equalize", false, [](Image& image, double) { equalize(image); })};
  return all;
}

void apply(const Operation& operation, double magnitude, SampleImage& sample) {
  if (operation.kind == Operation::Kind::color) return operation.color(sample.image(), magnitude);
  sample.move(operation.move(sample.image().size(), magnitude), Interpolation::nearest);
}

}  // namespace

Augment make_color_jitter(const AugmentRequest& request) {
  const Args& args = request.args;
  const double brightness = args.real("brightness", 0, 1, 0);
  const double contrast = args.real("contrast", 0, 1, 0);
  const double saturation = args.real("saturation", 0, 1, 0);
  const double hue = args.real("hue", 0, 0.5, 0);
  return [=](Sample& sample, Random& random, const Source&) {
    SampleImage image(sample);
    std::array<int, 4> order{0, 1, 2, 3};
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random.below(i)]);
    const auto factor = [&random](double most) { return random.uniform(1 - most, 1 + most); };
    for (const int which : order) {
      if (which == 0 && brightness > 0) adjust_brightness(image.image(), factor(brightness));
      if (which == 1 && contrast > 0) adjust_contrast(image.image(), factor(contrast));
      if (which == 2 && saturation > 0) adjust_saturation(image.image(), factor(saturation));
      if (which == 3 && hue > 0) adjust_hue(image.image(), random.uniform(-hue, hue));
    }
  };
}

Augment make_hsv(const AugmentRequest& request) {
  const double hue = request.args.real("hue", 0, 0.5, 0.015);
  const double saturation = request.args.real("saturation", 0, 1, 0.7);
  const double value = request.args.real("value", 0, 1, 0.4);
  return [=](Sample& sample, Random& random, const Source&) {
    SampleImage image(sample);
    const double shift = random.uniform(-hue, hue);
    const double of_saturation = random.uniform(1 - saturation, 1 + saturation);
    const double of_value = random.uniform(1 - value, 1 + value);
    adjust_hsv(image.image(), shift, of_saturation, of_value);
  };
}

Augment make_rand_augment(const AugmentRequest& request) {
  const std::int64_t count = request.args.integer("count", 1, 100, 2);
  const std::int64_t magnitude = request.args.integer("magnitude", 0, kMagnitudes, 9);
  const double share = static_cast<double>(magnitude) / kMagnitudes;
  return [count, share](Sample& sample, Random& random, const Source&) {
    SampleImage image(sample);
    for (std::int64_t i = 0; i < count; ++i) {
      const Operation& operation = operations()[random.below(operations().size())];
      const bool is_negative = operation.is_signed && random.below(2) == 1;
      apply(operation, is_negative ? -share : share, image);
    }
  };
}

}  // namespace ddp::worker
