#include "worker/data/augment.h"

#include "worker/data/colors.h"
#include "worker/data/crops.h"
#include "worker/data/mix.h"
#include "worker/data/moves.h"

namespace ddp::worker {

std::map<std::string, AugmentFactory> built_in_augments() {
  return {{"flip", make_flip},
          {"crop", make_crop},
          {"random-resized-crop", make_random_resized_crop},
          {"resize", make_resize},
          {"center-crop", make_center_crop},
          {"letterbox", make_letterbox},
          {"rotate", make_rotate},
          {"affine", make_affine},
          {"color-jitter", make_color_jitter},
          {"colour-jitter", make_color_jitter},
          {"cutout", make_cutout},
          {"mixup", make_mixup},
          {"cutmix", make_cutmix},
          {"rand-augment", make_rand_augment}};
}

}  // namespace ddp::worker
