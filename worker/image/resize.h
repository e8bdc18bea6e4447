// Resizes by bilinear interpolation with antialiasing: in a smaller image, each pixel is a weighted
// mean over all that it covers. The pixels are those of torchvision's resize(antialias=True) of a
// uint8 tensor on a CPU with AVX2, bit for bit (rows first, weights of 16 bits, each pass rounded).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/image/image.h"
#include "worker/image/weighted_sums.h"

namespace ddp::worker {

/// Resizes images. Keeps its memory and the weights of the last size, so use one per thread.
class Resizer {
 public:
  /// Resizes a `region` of `from`: a crop and a resize in one.
  /// Errors: std::logic_error when the region is not inside of `from`, or a size has no pixel.
  void resize(const Image& from, const Region& region, ImageSize size, Image& into);
  void resize(const Image& from, ImageSize size, Image& into) {
    resize(from, {0, 0, from.height, from.width}, size, into);
  }

  /// The same for a colour image whose rows come one after the other: call begin(), put_row() for
  /// each, and finish(). A pixel has four bytes, the last one unused. Errors: those of resize().
  void begin(ImageSize from, ImageSize size);
  /// Precondition: room() more pixels after the row can be read; their values do not matter.
  void put_row(const std::uint8_t* pixels);
  void finish(Image& into);
  [[nodiscard]] std::size_t room() const { return static_cast<std::size_t>(across_.stride); }

 private:
  /// The weights by which a line of `from` pixels becomes a line of `to` pixels.
  struct Weights {
    int from = 0;
    int to = 0;
    int taps = 0;            // source pixels per new pixel
    int stride = 0;          // weights per new pixel: the taps, and zeros up to a multiple of 4
    int shift = 0;           // sums are divided by this power of two
    std::vector<int> first;  // [to], the source pixel of the first weight
    std::vector<std::int16_t> numbers;  // [to, stride]
    std::vector<double> exact;          // [to, most taps]
    void prepare(int new_from, int new_to);
    [[nodiscard]] const std::int16_t* weights(std::size_t pixel) const {
      return numbers.data() + pixel * static_cast<std::size_t>(stride);
    }
  };

  void prepare(ImageSize from, ImageSize size, std::size_t pixel_bytes);
  void sum_pixels(const std::uint8_t* pixels, std::uint8_t* into) const;
  const std::uint8_t* sum_rows(int y);
  void resize_grey(const Image& from, const Region& region, Image& into);

  const SumKernel kernel_ = sum_kernels().back();
  Weights across_;
  Weights down_;
  std::size_t row_bytes_ = 0;         // of a new row, rounded up to whole vectors
  std::size_t put_ = 0;               // rows passed to put_row() so far
  std::vector<std::uint8_t> pixels_;  // a row of the region, four bytes each, and room()
  std::vector<std::uint8_t> rows_;    // [height of the region, row_bytes_]
  std::vector<std::uint8_t> result_;  // [row_bytes_]
  std::vector<std::uint8_t> four_;    // four new rows of a grey image, as pixels
};

/// The size that torchvision's resize(int) gives: the smaller side becomes `smaller`, and the other
/// keeps the ratio, rounded down.
ImageSize resized_smaller_side(ImageSize image, int smaller);
/// The larger side becomes `larger`, and the other keeps the ratio, rounded to the nearest.
ImageSize resized_larger_side(ImageSize image, int larger);

}  // namespace ddp::worker
