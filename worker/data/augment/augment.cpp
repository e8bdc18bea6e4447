#include "worker/data/augment/augment.h"

#include "worker/data/augment/colors.h"
#include "worker/data/augment/crops.h"
#include "worker/data/augment/geometric_augments.h"
#include "worker/data/augment/mix.h"
#include "worker/data/augment/mosaic.h"
#include "worker/data/augment/random_perspective.h"

namespace ddp::worker {
namespace {

/// The augmentation at `place` of the list; null if it is of another kind.
template <typename Kind>
const Kind* find(std::span<const Augment> augments, std::size_t place) {
  return place < augments.size() ? augments[place].target<Kind>() : nullptr;
}

}  // namespace

std::map<std::string, AugmentFactory> built_in_augments() {
  return {{"flip", make_flip},
          {"flip-vertical", make_flip_vertical},
          {"crop", make_crop},
          {"random-resized-crop",
           [](const AugmentRequest& request) { return Augment(RandomResizedCrop(request)); }},
          {"resize", make_resize},
          {"center-crop", make_center_crop},
          {"letterbox", make_letterbox},
          {"rotate", make_rotate},
          {"affine", make_affine},
          {"random-perspective",
           [](const AugmentRequest& request) { return Augment(RandomPerspective(request)); }},
          {"mosaic", [](const AugmentRequest& request) { return Augment(Mosaic(request)); }},
          {"hsv", make_hsv},
          {"color-jitter", make_color_jitter},
          {"colour-jitter", make_color_jitter},
          {"cutout", make_cutout},
          {"mixup", make_mixup},
          {"cutmix", make_cutmix},
          {"rand-augment", make_rand_augment}};
}

void read_augmented(const Source& source,
                    std::int64_t index,
                    std::span<const Augment> augments,
                    Random& random,
                    Sample& into) {
  const auto* const crop = find<RandomResizedCrop>(augments, 0);
  const auto* const mosaic = find<Mosaic>(augments, 0);
  const auto* const move = find<RandomPerspective>(augments, 1);
  if (crop != nullptr && crop->read(index, random, source, into)) {
    augments = augments.subspan(1);
  } else if (mosaic != nullptr && move != nullptr && move->takes_any_size()) {
    mosaic->read_moved(index, *move, random, source, into);
    augments = augments.subspan(2);
  } else {
    source.read(index, into);
  }
  for (const Augment& augment : augments)
    augment(into, random, source);
}

}  // namespace ddp::worker
