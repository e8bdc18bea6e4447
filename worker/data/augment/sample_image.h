// A sample's image and boxes in the types of worker/image. The changed image is put back into the
// sample by the destructor.
#pragma once

#include <functional>
#include <optional>

#include "worker/data/sample.h"
#include "worker/image/box.h"
#include "worker/image/collage.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// Rows of a sample's boxes: class, left, top, right, bottom; of float32, in pixels.
inline constexpr std::int64_t kBoxRow = 5;
/// A box of which less than that share is left tells nothing of the object in it, and is dropped.
inline constexpr float kLeastOfBox = 0.1F;

/// The boxes of another sample become this one's, too. Precondition: both have boxes.
void append_boxes(const Sample& other, Sample& sample);

/// Each box becomes what `move` makes of it, or is dropped. Nothing happens without boxes.
void move_boxes(Sample& sample, const std::function<std::optional<Box>(const Box&)>& move);

/// The image of a sample, which outlives it, as a collage of one piece. Errors: UsageError when it
/// is not bytes of one or three channels.
Collage collage_of(const Array& input);

/// The image of a sample becomes what `make` puts into one. What was there is lost but for its
/// memory.
void make_image(Sample& sample, const std::function<void(Image& into)>& make);

class SampleImage {
 public:
  /// Errors: UsageError when the sample's input is not bytes of one or three channels.
  explicit SampleImage(Sample& sample);
  SampleImage(const SampleImage&) = delete;
  SampleImage& operator=(const SampleImage&) = delete;
  ~SampleImage();

  Image& image() { return image_; }
  /// The image becomes what `make` puts into another one.
  void replace(const std::function<void(const Image& from, Image& into)>& make);
  /// Image and boxes; what comes from outside is black.
  void move(const Affine& affine, Interpolation interpolation);
  /// As above.
  void move_boxes(const std::function<std::optional<Box>(const Box&)>& move) {
    ddp::worker::move_boxes(sample_, move);
  }

 private:
  Sample& sample_;
  Image image_;
};

}  // namespace ddp::worker
