#include "worker/data/augment/geometric_augments.h"

#include <algorithm>

#include "worker/data/augment/pixel_move.h"
#include "worker/data/augment/sample_image.h"
#include "worker/image/affine.h"

namespace ddp::worker {
namespace {

void move(Sample& sample, const Affine& affine) {
  SampleImage(sample).move(affine, Interpolation::bilinear);
}

Augment flip_some(const AugmentRequest& request, void (MovedImage::*flip)()) {
  const double share = request.args.real("share", 0, 1, 0.5);
  return PixelMove([share, flip](MovedImage& image, Random& random) {
    if (random.uniform() < share) (image.*flip)();
  });
}

}  // namespace

Augment make_flip(const AugmentRequest& request) {
  return flip_some(request, &MovedImage::flip_horizontal);
}

Augment make_flip_vertical(const AugmentRequest& request) {
  return flip_some(request, &MovedImage::flip_vertical);
}

Augment make_rotate(const AugmentRequest& request) {
  const double degrees = request.args.real("degrees", 0, 180, 15);
  return [degrees](Sample& sample, Random& random, const Source&) {
    move(sample, rotation(random.within(degrees)));
  };
}

Augment make_affine(const AugmentRequest& request) {
  const Args& args = request.args;
  const double degrees = args.real("degrees", 0, 180, 0);
  const double translate = args.real("translate", 0, 1, 0);
  const double min_scale = args.real("min_scale", 0.01, 100, 1);
  const double max_scale = args.real("max_scale", min_scale, 100, std::max(1.0, min_scale));
  const double shear = args.real("shear", 0, 89, 0);
  return [=](Sample& sample, Random& random, const Source&) {
    Affine affine;
    affine.angle = random.within(degrees);
    const auto height = static_cast<double>(sample.input.shape.at(1));
    const auto width = static_cast<double>(sample.input.shape.at(2));
    affine.translate = {random.within(translate) * width, random.within(translate) * height};
    affine.scale = random.uniform(min_scale, max_scale);
    affine.shear = {random.within(shear), random.within(shear)};
    move(sample, affine);
  };
}

Augment make_cutout(const AugmentRequest& request) {
  const int side = static_cast<int>(request.args.integer("size", 1, 1 << 14, 8));
  const std::int64_t count = request.args.integer("count", 1, 1000, 1);
  return PixelMove([side, count](MovedImage& image, Random& random) {
    const ImageSize size = image.size();
    for (std::int64_t i = 0; i < count; ++i) {
      // The middle of a square is anywhere in the image, so that pixels at the edge are hit as
      // often.
      const int top = static_cast<int>(random.below(static_cast<std::uint64_t>(size.height)));
      const int left = static_cast<int>(random.below(static_cast<std::uint64_t>(size.width)));
      image.erase({top - side / 2, left - side / 2, side, side});
    }
  });
}

}  // namespace ddp::worker
