// The augmentations that a job file may name in data.augment, and how a program adds its own.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "worker/data/source.h"
#include "worker/plan/args.h"

namespace ddp::worker {

struct AugmentRequest {
  const Args& args;
  const DataFacts& data;        // of the training set
  std::vector<Augment> before;  // the augmentations before this one, in order
  std::int64_t epochs = 0;      // of the run; 0: not known
};

/// Makes one entry of data.augment. Errors: UsageError.
using AugmentFactory = std::function<Augment(const AugmentRequest&)>;

/// The built-in augmentations, by name. Those that move pixels move boxes, too
/// (DataFacts::has_boxes). share: the probability that one is applied to a sample.
///   flip            {share: 0.5}: left becomes right
///   flip-vertical   {share: 0.5}: top becomes bottom
///   crop            {size: as the data set's, padding: 0, border: zero | reflect | edge}: a part
///                   of that size, of the image with `padding` pixels around it
///   random-resized-crop {size: the data set's, min_area: 0.08, max_area: 1, min_ratio: 0.75,
///                   max_ratio: 1.3333}: a part of the image, of any size, resized
///   resize          {size}: the smaller side to that; or {height, width}
///   center-crop     {size: the data set's}
///   letterbox       {size: the data set's}: the larger side to that, and grey around the rest
///   rotate          {degrees: 15}: by a random angle of up to that, either way
///   affine          {degrees: 0, translate: 0, min_scale: 1, max_scale: 1, shear: 0}: translate is
///                   a fraction of the image's size, shear in degrees
///   random-perspective {degrees: 0, translate: 0.1, scale: 0.5, shear: 0, perspective: 0, size:
///                   the data set's}: turned, scaled by 1 plus or minus `scale`, sheared and
///                   shifted at once, around the image's middle, into a square of that size with
///                   grey around the rest. translate is a fraction of the size, shear in degrees,
///                   perspective a change of depth per pixel (0.001 is much). The image is first
///                   resized to a larger side of `size`; after a mosaic it is not, and the
///                   mosaic's middle is shown. Boxes of which less than a tenth is left are
///                   dropped, and those of a side below 2 pixels, or of sides of more than 100 to 1
///   mosaic          {size: the data set's, share: 1, close: 10}: this image and three others
///                   around a random point, each with its larger side of `size`, on grey. The image
///                   is then twice that size: random-perspective after it shows a part of `size`,
///                   and without it all of it is shrunk at the end. For boxes alone. In the last
///                   `close` epochs, and where it is not done (share), the image is only resized
///                   to a larger side of `size`; a run of no more than `close` epochs has mosaics
///                   to its end
///   hsv             {hue: 0.015, saturation: 0.7, value: 0.4}: the hue turned by up to `hue`
///                   turns, saturation and value multiplied by 1 plus or minus theirs
///   color-jitter    {brightness: 0, contrast: 0, saturation: 0, hue: 0}: by factors of at most 1
///                   plus or minus these, in a random order; hue in turns
///   cutout          {size: 8, count: 1}: squares of black
///   mixup           {alpha: 0.2, share: 1}: a mean with another image, and of their labels. With
///                   boxes {alpha: 32, share: 1, close: 10}: the boxes of both images are kept, and
///                   `close` works as in mosaic
///   cutmix          {alpha: 1, share: 1}: a rectangle of another image, and a fraction of its
///                   label
///   rand-augment    {count: 2, magnitude: 9}: `count` random operations of a list, each at that
///                   magnitude (0 to 30)
/// Sources: DeVries and Taylor, arXiv:1708.04552; Zhang et al., arXiv:1710.09412; Yun et al.,
/// arXiv:1905.04899; Bochkovskiy et al., arXiv:2004.10934; Cubuk et al., arXiv:1909.13719, with
/// torchvision's ranges of magnitudes.
std::map<std::string, AugmentFactory> built_in_augments();

/// Reads a sample and applies the list to it. Saves work with the same result: if the list begins
/// with random-resized-crop, it decodes only the crop; with mosaic and random-perspective, it makes
/// only the visible part of the mosaic.
/// Errors: those of the source; UsageError for a sample that an augmentation cannot take.
void read_augmented(const Source& source,
                    std::int64_t index,
                    std::span<const Augment> augments,
                    Random& random,
                    Sample& into);

/// The last augmentation of the list if images vary in size, and the only one of a test set:
/// letterbox() for images with boxes, else fit_to().
Augment fit(const DataFacts& data);
/// Resizes the smaller side to side / 0.875 and takes the middle, unless the image is `side` x
/// `side` already.
Augment fit_to(int side);
/// Resizes the larger side to `side`, and pads the image with grey to a square.
Augment letterbox(int side);
/// The smallest side that fit_to() need not enlarge.
int fitted_side(int side);

}  // namespace ddp::worker
