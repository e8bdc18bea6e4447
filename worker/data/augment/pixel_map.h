// Where each pixel of an augmented image comes from, where augmentations only move rows and columns
// or paint rectangles black: so a set of images can be augmented where it lies, by indices.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/data/augment/moved_image.h"

namespace ddp::worker {

class PixelMap : public MovedImage {
 public:
  /// So many rectangles can be told apart.
  static constexpr int kMaxErased = 64;

  /// A row, or a column, of the augmented image.
  struct Line {
    int source = 0;            // of the image; kOutside: black
    std::uint64_t erased = 0;  // the rectangles that it crosses, a bit each

    bool operator==(const Line&) const = default;
  };

  /// Starts with an image of that size as it is.
  void reset(ImageSize image);

  /// A pixel is black where its row or its column is, or where both cross the same rectangle.
  [[nodiscard]] const std::vector<Line>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<Line>& columns() const { return columns_; }
  /// Rectangles; those above kMaxErased are not in the lines.
  [[nodiscard]] int erased() const { return erased_; }

  [[nodiscard]] ImageSize size() const override;
  void flip_horizontal() override;
  void flip_vertical() override;
  /// Precondition: a border that is filled is black.
  void crop(const Region& region, const Border& border) override;
  void erase(const Region& region) override;

 private:
  std::vector<Line> rows_;
  std::vector<Line> columns_;
  std::vector<Line> spare_;
  int erased_ = 0;
};

}  // namespace ddp::worker
