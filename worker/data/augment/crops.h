// Augmentations that choose the visible part of an image, and its size: see
// worker/data/augment/augment.h for their arguments.
#pragma once

#include "worker/data/augment/augment.h"
#include "worker/data/augment/sample_image.h"

namespace ddp::worker {

/// The grey that the YOLO family puts around an image.
inline constexpr Color kGrey{114, 114, 114};

/// Reads a side in pixels from the arguments; by default that of the data set's images. Errors:
/// UsageError.
int side_of(const Args& args, const DataFacts& data, const char* name = "size");

/// Resizes image and boxes.
void resize_to(SampleImage& sample, ImageSize size);

/// random-resized-crop: a part of the image, of any size, resized.
class RandomResizedCrop {
 public:
  /// Errors: UsageError.
  explicit RandomResizedCrop(const AugmentRequest& request);

  void operator()(Sample& sample, Random& random, const Source& source) const;
  /// Reads a sample and does the same to it, without decoding pixels that are not needed. A part of
  /// a JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, but not below the size of the result:
  /// its pixels are then averages. False if the source only has whole samples; `random` is then
  /// unchanged.
  [[nodiscard]] bool read(std::int64_t index,
                          Random& random,
                          const Source& source,
                          Sample& into) const;

 private:
  [[nodiscard]] Region choose(ImageSize image, Random& random) const;

  int side_;
  double min_area_;
  double max_area_;
  double min_ratio_;  // width : height
  double max_ratio_;
};

Augment make_crop(const AugmentRequest& request);
Augment make_resize(const AugmentRequest& request);
Augment make_center_crop(const AugmentRequest& request);
Augment make_letterbox(const AugmentRequest& request);
/// Fits the whole image into a frame, with grey around it (worker/image/letterbox.h).
void letterbox_into(Sample& sample, ImageSize frame);

}  // namespace ddp::worker
