// Bilinear interpolation of one row: each new pixel is mixed from two columns of two source rows,
// with weights in 128ths. The inner loop of axis_aligned. Sums are integers, so a plain loop and
// AVX2 vectors give the same pixels; the version is chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddp::worker {

/// The source columns of the pixels of a row, the same for all rows of an image.
class MixedColumns {
 public:
  /// Pixels that an AVX2 kernel computes at once, in two halves.
  static constexpr std::size_t kAtOnce = 16;
  static constexpr std::size_t kHalf = 8;

  MixedColumns() = default;
  /// Shapes: `places` and `parts` [pixels]: the left of a pixel's two source columns, and the
  /// weight of the right one in 128ths. Precondition: columns are in [0, width), parts in [0, 128).
  MixedColumns(std::vector<std::int32_t> places, const std::vector<std::uint8_t>& parts, int width);

  [[nodiscard]] std::size_t count() const { return places_.size(); }
  [[nodiscard]] const std::int32_t* places() const { return places_.data(); }
  /// Two weights for each pixel, which sum to 128; then zeros up to a multiple of kAtOnce pixels.
  [[nodiscard]] const std::uint8_t* weights() const { return weights_.data(); }

  /// For the AVX2 kernel, if the columns of each half lie within 16 bytes: where these bytes begin,
  /// and (picks) which two of them each pixel takes. Empty if columns lie further apart, as when an
  /// image shrinks to less than half its size.
  [[nodiscard]] const std::vector<std::int32_t>& starts() const { return starts_; }
  [[nodiscard]] const std::uint8_t* picks() const { return picks_.data(); }

 private:
  void find_starts(int width);

  std::vector<std::int32_t> places_;
  std::vector<std::uint8_t> weights_;
  std::vector<std::int32_t> starts_;  // [halves]
  std::vector<std::uint8_t> picks_;   // [halves, 16]
};

/// One implementation. All but the first one need columns with starts().
struct MixKernel {
  /// `below`: the weight of the lower row in 128ths, below 128. Writes columns.count() bytes.
  using Mix = void (*)(const std::uint8_t* upper,
                       const std::uint8_t* lower,
                       int below,
                       const MixedColumns& columns,
                       std::uint8_t* into);

  const char* name = "";
  Mix mix = nullptr;
};

/// The kernels that this CPU can run, the fastest one last.
const std::vector<MixKernel>& mix_kernels();

}  // namespace ddp::worker
