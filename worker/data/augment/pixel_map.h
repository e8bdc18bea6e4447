// Records where each pixel of an augmented image comes from, for augmentations that only move rows
// and columns or paint rectangles black. So images on a device can be augmented by indices.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/data/augment/moved_image.h"

namespace ddp::worker {

class PixelMap : public MovedImage {
 public:
  /// Line::erased has one bit for each rectangle.
  static constexpr int kMaxErased = 64;

  /// A row, or a column, of the augmented image.
  struct Line {
    int source = 0;            // row or column of the image; kOutside: black
    std::uint64_t erased = 0;  // one bit for each rectangle that it crosses

    bool operator==(const Line&) const = default;
  };

  /// Starts with an unchanged image of that size.
  void reset(ImageSize image);

  /// A pixel is black where its row or its column is, or where both cross the same rectangle.
  [[nodiscard]] const std::vector<Line>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<Line>& columns() const { return columns_; }
  /// How many rectangles were painted; those above kMaxErased are not in the lines.
  [[nodiscard]] int erased() const { return erased_; }

  [[nodiscard]] ImageSize size() const override;
  void flip_horizontal() override;
  void flip_vertical() override;
  /// Precondition: if the border is filled, its colour is black.
  void crop(const Region& region, const Border& border) override;
  void erase(const Region& region) override;

 private:
  std::vector<Line> rows_;
  std::vector<Line> columns_;
  std::vector<Line> spare_;
  int erased_ = 0;
};

}  // namespace ddp::worker
