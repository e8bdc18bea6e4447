#include "worker/data/loading/pixel_table.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "worker/image/byte_floats.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kBytes = 256;

at::Tensor per_channel(const std::vector<float>& values, at::ScalarType type) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size()), 1}, at::kFloat);
  std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
  return tensor.to(type);
}

/// Writes one channel; `step` is the distance from one pixel to the next.
template <typename Number>
void write_channel(const std::uint8_t* pixels,
                   std::int64_t count,
                   const Number* table,
                   Number* out,
                   std::int64_t step) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i * step] = table[pixels[i]];
}

/// Writes three channels whose numbers lie side by side.
template <typename Number>
void write_rgb(const std::uint8_t* pixels, std::int64_t count, const Number* table, Number* out) {
  const std::uint8_t* const green = pixels + count;
  const std::uint8_t* const blue = green + count;
  for (std::int64_t i = 0; i < count; ++i, out += 3) {
    out[0] = table[pixels[i]];
    out[1] = table[kBytes + green[i]];
    out[2] = table[2 * kBytes + blue[i]];
  }
}

template <typename Number>
void write_image(const std::uint8_t* pixels,
                 const at::Tensor& numbers,
                 const at::Tensor& batch,
                 std::int64_t row) {
  const std::int64_t channels = batch.size(1);
  const std::int64_t count = batch.size(2) * batch.size(3);
  const auto* const table = numbers.const_data_ptr<Number>();
  auto* const out = batch.data_ptr<Number>() + row * batch.stride(0);
  if (channels == 3 && batch.stride(1) == 1) return write_rgb(pixels, count, table, out);
  for (std::int64_t c = 0; c < channels; ++c) {
    write_channel(
        pixels + c * count, count, table + c * kBytes, out + c * batch.stride(1), batch.stride(3));
  }
}

}  // namespace

PixelTable::PixelTable(const std::vector<float>& mean,
                       const std::vector<float>& deviation,
                       at::ScalarType type) {
  if (type != at::kFloat && type != at::kDouble)
    throw std::logic_error("pixels become numbers of 32 or 64 bits");
  // Divided, not multiplied by the reciprocal, to be bit for bit what Python users compute.
  numbers_ = at::arange(kBytes, type)
                 .div_(255)
                 .unsqueeze(0)
                 .sub(per_channel(mean, type))
                 .div_(per_channel(deviation, type))
                 .contiguous();
  const auto all_are = [](const std::vector<float>& values, float wanted) {
    return std::ranges::all_of(values, [wanted](float value) { return value == wanted; });
  };
  is_quotient_ = type == at::kFloat && all_are(mean, 0) && all_are(deviation, 1);
}

void PixelTable::write(std::span<const std::uint8_t> pixels,
                       const at::Tensor& batch,
                       std::int64_t row) const {
  const bool is_interleaved = batch.size(1) == 3 && batch.stride(1) == 1;
  if (is_quotient_ && is_interleaved) {
    const auto count = static_cast<std::size_t>(batch.size(2) * batch.size(3));
    float* const into = batch.data_ptr<float>() + row * batch.stride(0);
    return float_kernels().back().write(pixels.data(), count, into);
  }
  if (type() == at::kDouble) return write_image<double>(pixels.data(), numbers_, batch, row);
  write_image<float>(pixels.data(), numbers_, batch, row);
}

}  // namespace ddp::worker
