// Another size by bilinear interpolation with antialiasing: going smaller, each pixel is a weighted
// mean over all that it covers. The pixels are those of torchvision's resize(antialias=True) of a
// uint8 tensor on a CPU with AVX2, bit for bit (rows first, weights of 16 bits, each pass rounded).
#pragma once

#include <cstdint>
#include <vector>

#include "worker/image/image.h"

namespace ddp::worker {

/// Resizes images and keeps the weights of the last size, and its memory. One per thread.
class Resizer {
 public:
  /// `region` of `from` in another size: a crop and a resize in one.
  /// Errors: std::logic_error when the region is not inside of `from`, or a size has no pixel.
  void resize(const Image& from, const Region& region, ImageSize size, Image& into);
  void resize(const Image& from, ImageSize size, Image& into) {
    resize(from, {0, 0, from.height, from.width}, size, into);
  }

 private:
  /// How one line of `from` pixels becomes one of `to`.
  struct Weights {
    int from = 0;
    int to = 0;
    int width = 0;                      // weights of one pixel
    int shift = 0;                      // the weights' sum is 1 << shift
    std::vector<int> first;             // [to], the first pixel that counts
    std::vector<std::int16_t> weights;  // [to, width]
    void prepare(int new_from, int new_to);
  };

  Weights across_;
  Weights down_;
  std::vector<std::uint8_t> rows_;  // [rows that count, new width]
};

/// The size that torchvision's resize(int) gives: the smaller side becomes `smaller`, the other one
/// keeps the ratio, rounded down.
ImageSize resized_smaller_side(ImageSize image, int smaller);

}  // namespace ddp::worker
