// Normalises pixels by a table of 256 numbers per channel, so that normalising, conversion to
// floats and the change of memory format are one pass over an image.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace ddp::worker {

class PixelTable {
 public:
  /// Its numbers are (pixel / 255 - mean) / deviation of each channel, in `type` (float or double),
  /// bit for bit as torch computes them. Errors: std::logic_error for another type.
  PixelTable(const std::vector<float>& mean,
             const std::vector<float>& deviation,
             at::ScalarType type);

  [[nodiscard]] std::int64_t channels() const { return numbers_.size(0); }
  [[nodiscard]] at::ScalarType type() const { return numbers_.scalar_type(); }
  /// [C, 256]
  [[nodiscard]] const at::Tensor& numbers() const { return numbers_; }

  /// Writes one image, [C, H, W] in C order, to row `row` of `batch`, [B, C, H, W] of this type and
  /// of any dense layout.
  void write(std::span<const std::uint8_t> pixels, const at::Tensor& batch, std::int64_t row) const;

 private:
  at::Tensor numbers_;  // [C, 256]
  bool is_quotient_;    // float32, mean 0, deviation 1: has a faster kernel
};

}  // namespace ddp::worker
