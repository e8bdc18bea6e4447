#include "worker/data/augment/crops.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/error.h"
#include "worker/data/augment/pixel_move.h"
#include "worker/data/augment/sample_image.h"
#include "worker/image/geometry.h"
#include "worker/image/letterbox.h"
#include "worker/image/resize.h"

namespace ddp::worker {
namespace {

constexpr int kMaxSide = 1 << 14;
// The usual fraction of the smaller side that evaluations crop: 224 of 256.
constexpr double kCropFraction = 0.875;

Border border_of(const Args& args) {
  const std::string name = args.text("border", "zero");
  if (name == "zero") return {};
  if (name == "reflect") return {.kind = Border::Kind::reflect};
  if (name == "edge") return {.kind = Border::Kind::edge};
  throw UsageError(args.where("border") + ": " + name + " is not one of zero, reflect, edge.");
}

/// A random number in [0, most].
int draw(Random& random, int most) {
  return most <= 0 ? 0 : static_cast<int>(random.below(static_cast<std::uint64_t>(most) + 1));
}

/// Puts a part of the image in another size in its place.
void resize_part(SampleImage& sample, const Region& region, ImageSize size) {
  thread_local Resizer resizer;
  sample.replace([&](const Image& from, Image& into) { resizer.resize(from, region, size, into); });
  sample.move_boxes([&](const Box& box) -> std::optional<Box> {
    const std::optional<Box> left = crop(box, region, kLeastOfBox);
    if (!left) return {};
    return resize(*left, region.size(), size);
  });
}

}  // namespace

int side_of(const Args& args, const DataFacts& data, const char* name) {
  std::optional<std::int64_t> otherwise;
  if (data.shape.size() == 3) otherwise = data.shape[1];
  return static_cast<int>(args.integer(name, 1, kMaxSide, otherwise));
}

void resize_to(SampleImage& sample, ImageSize size) {
  const ImageSize from = sample.image().size();
  if (from != size) resize_part(sample, {0, 0, from.height, from.width}, size);
}

Augment make_crop(const AugmentRequest& request) {
  const int side = side_of(request.args, request.data);
  const int padding = static_cast<int>(request.args.integer("padding", 0, kMaxSide, 0));
  const Border border = border_of(request.args);
  return PixelMove([side, padding, border](MovedImage& image, Random& random) {
    const ImageSize size = image.size();
    const int top = draw(random, size.height + 2 * padding - side) - padding;
    const int left = draw(random, size.width + 2 * padding - side) - padding;
    image.crop({top, left, side, side}, border);
  });
}

RandomResizedCrop::RandomResizedCrop(const AugmentRequest& request)
    : side_(side_of(request.args, request.data)),
      min_area_(request.args.real("min_area", 1e-4, 1, 0.08)),
      max_area_(request.args.real("max_area", min_area_, 1, 1.0)),
      min_ratio_(request.args.real("min_ratio", 0.01, 100, 0.75)),
      max_ratio_(request.args.real("max_ratio", min_ratio_, 100, 4.0 / 3)) {}

// As torchvision's RandomResizedCrop: ten tries, then the middle of the nearest allowed ratio.
Region RandomResizedCrop::choose(ImageSize image, Random& random) const {
  const double area = static_cast<double>(image.height) * image.width;
  for (int i = 0; i < 10; ++i) {
    const double wanted = area * random.uniform(min_area_, max_area_);
    const double ratio = std::exp(random.uniform(std::log(min_ratio_), std::log(max_ratio_)));
    const int width = static_cast<int>(std::lround(std::sqrt(wanted * ratio)));
    const int height = static_cast<int>(std::lround(std::sqrt(wanted / ratio)));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const int top = draw(random, image.height - height);
    const int left = draw(random, image.width - width);
    return {top, left, height, width};
  }
  ImageSize size = image;
  const double ratio = static_cast<double>(image.width) / image.height;
  if (ratio < min_ratio_)
    size.height = std::max(1, static_cast<int>(std::lround(image.width / min_ratio_)));
  if (ratio > max_ratio_)
    size.width = std::max(1, static_cast<int>(std::lround(image.height * max_ratio_)));
  return {
      (image.height - size.height) / 2, (image.width - size.width) / 2, size.height, size.width};
}

void RandomResizedCrop::operator()(Sample& sample, Random& random, const Source& /*source*/) const {
  SampleImage image(sample);
  resize_part(image, choose(image.image().size(), random), {side_, side_});
}

bool RandomResizedCrop::read(std::int64_t index,
                             Random& random,
                             const Source& source,
                             Sample& into) const {
  const ImageSize size{side_, side_};
  const DecodeRequest request{.at_least = size,
                              .part = [&](ImageSize image) { return choose(image, random); },
                              .size = size};
  return source.read_part(index, request, into);
}

Augment make_resize(const AugmentRequest& request) {
  const Args& args = request.args;
  if (args.has("height") || args.has("width")) {
    const ImageSize size{static_cast<int>(args.integer("height", 1, kMaxSide)),
                         static_cast<int>(args.integer("width", 1, kMaxSide))};
    return [size](Sample& sample, Random&, const Source&) {
      SampleImage image(sample);
      resize_to(image, size);
    };
  }
  const int side = side_of(args, request.data);
  return [side](Sample& sample, Random&, const Source&) {
    SampleImage image(sample);
    resize_to(image, resized_smaller_side(image.image().size(), side));
  };
}

Augment make_center_crop(const AugmentRequest& request) {
  const int side = side_of(request.args, request.data);
  return PixelMove([side](MovedImage& image, Random&) {
    image.crop(center_region(image.size(), {side, side}), {});
  });
}

Augment make_letterbox(const AugmentRequest& request) {
  return letterbox(side_of(request.args, request.data));
}

int fitted_side(int side) {
  return static_cast<int>(std::lround(side / kCropFraction));
}

Augment letterbox(int side) {
  return [side](Sample& sample, Random&, const Source&) { letterbox_into(sample, {side, side}); };
}

void letterbox_into(Sample& sample, ImageSize frame) {
  SampleImage image(sample);
  const Letterbox fitted = fit_letterbox(image.image().size(), frame);
  resize_to(image, fitted.resized);
  if (fitted.resized != fitted.frame.size()) image.crop(fitted.frame, {.color = kGrey});
}

Augment fit(const DataFacts& data) {
  const int side = static_cast<int>(data.shape.at(1));
  // Cutting an image would cut objects off.
  return data.has_boxes ? letterbox(side) : fit_to(side);
}

Augment fit_to(int side) {
  return [side](Sample& sample, Random&, const Source&) {
    SampleImage image(sample);
    const ImageSize wanted{side, side};
    if (image.image().size() == wanted) return;
    resize_to(image, resized_smaller_side(image.image().size(), fitted_side(side)));
    image.crop(center_region(image.size(), wanted), {});
  };
}

}  // namespace ddp::worker
