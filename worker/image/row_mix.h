// Mixes two rows of bytes into one with other columns: each pixel is mixed of two columns of both
// rows, in 128ths. The inner loop of an upright move. Sums are whole numbers, so every order of
// adding gives the same pixels: a plain loop, and vectors of AVX2, chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddp::worker {

/// The source columns of the pixels of a row, the same for all rows of an image.
class MixedColumns {
 public:
  /// Pixels that a vector takes at once, in two halves.
  static constexpr std::size_t kAtOnce = 16;
  static constexpr std::size_t kHalf = 8;

  MixedColumns() = default;
  /// Shapes: `places` and `parts` [pixels]: the left one of a pixel's two columns, and the share of
  /// the right one. Precondition: columns are in [0, width), parts in [0, 128).
  MixedColumns(std::vector<std::int32_t> places, const std::vector<std::uint8_t>& parts, int width);

  [[nodiscard]] std::size_t count() const { return places_.size(); }
  [[nodiscard]] const std::int32_t* places() const { return places_.data(); }
  /// Two weights for each pixel, which sum to 128; zeros behind the last pixel, up to a multiple of
  /// kAtOnce.
  [[nodiscard]] const std::uint8_t* weights() const { return weights_.data(); }

  /// For halves whose columns lie within 16 bytes: where these bytes begin, and which two of them
  /// each pixel takes. Empty if columns lie further apart, as in an image at less than half its
  /// size.
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
  /// `below`: the share of the lower row, in [0, 128). Writes columns.count() bytes.
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
