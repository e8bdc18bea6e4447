// A sample's image and boxes in the types of worker/image. The destructor puts the changed image
// back into the sample.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "worker/data/augment/moved_image.h"
#include "worker/data/sample.h"
#include "worker/image/box.h"
#include "worker/image/collage.h"
#include "worker/image/image.h"

namespace ddp::worker {

/// Rows of a sample's boxes: class, left, top, right, bottom; of float32, in pixels.
inline constexpr std::int64_t kBoxRow = 5;
/// A box of which less than this fraction is visible is dropped: it shows too little of its object.
inline constexpr float kLeastOfBox = 0.1F;

/// Adds the boxes of `other` to `sample`. Precondition: both have boxes.
void append_boxes(const Sample& other, Sample& sample);

/// Replaces each box by what `move` returns, or drops it. Does nothing to a sample without boxes.
void move_boxes(Sample& sample, const std::function<std::optional<Box>(const Box&)>& move);

/// Whether samples of that shape are images: [1 or 3, height, width].
bool is_image(const std::vector<std::int64_t>& shape);

/// A view of a sample's image as a collage of one piece; the sample outlives it. Errors: UsageError
/// when the input is not bytes of one or three channels.
Collage collage_of(const Array& input);

/// Replaces the image of a sample by the one that `make` writes into its argument, which reuses the
/// memory of the old image.
void make_image(Sample& sample, const std::function<void(Image& into)>& make);

class SampleImage : public MovedImage {
 public:
  /// Errors: UsageError when the sample's input is not bytes of one or three channels.
  explicit SampleImage(Sample& sample);
  ~SampleImage() override;

  Image& image() { return image_; }
  [[nodiscard]] ImageSize size() const override { return image_.size(); }
  /// Replaces the image by the one that `make` writes into `into`.
  void replace(const std::function<void(const Image& from, Image& into)>& make);
  /// Moves image and boxes; pixels from outside of the image are black.
  void move(const Affine& affine, Interpolation interpolation);
  void flip_horizontal() override;
  void flip_vertical() override;
  /// Drops boxes of which too little is visible (kLeastOfBox).
  void crop(const Region& region, const Border& border) override;
  void erase(const Region& region) override;
  /// As the free function, for this sample.
  void move_boxes(const std::function<std::optional<Box>(const Box&)>& move) {
    ddp::worker::move_boxes(sample_, move);
  }

 private:
  Sample& sample_;
  Image image_;
};

}  // namespace ddp::worker
