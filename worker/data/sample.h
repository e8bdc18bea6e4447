// One sample as a source reads it: plain numbers, without Torch. Reading into a sample reuses its
// buffers.
#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddp::worker {

enum class NumberType { uint8, int64, float32 };

template <typename Number>
constexpr NumberType number_type();
template <>
constexpr NumberType number_type<std::uint8_t>() {
  return NumberType::uint8;
}
template <>
constexpr NumberType number_type<std::int64_t>() {
  return NumberType::int64;
}
template <>
constexpr NumberType number_type<float>() {
  return NumberType::float32;
}

/// "1x28x28"; empty for one number.
inline std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

/// A dense array in C order. An array without dimensions is one number.
struct Array {
  NumberType type = NumberType::int64;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;

  [[nodiscard]] std::int64_t count() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }

  /// Copies `numbers`. Errors: std::logic_error when they do not fill `dimensions`.
  template <typename Number>
  void assign(const std::vector<std::int64_t>& dimensions, std::span<const Number> numbers) {
    type = number_type<Number>();
    shape = dimensions;
    if (count() != static_cast<std::int64_t>(numbers.size()))
      throw std::logic_error("an array's numbers do not fill its shape");
    bytes.resize(numbers.size_bytes());
    if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), numbers.size_bytes());
  }

  bool operator==(const Array&) const = default;
};

/// All samples of a source have equally many targets.
struct Sample {
  Array input;  // uint8: pixels [channels, height, width]; other types are not normalised
  std::vector<Array> targets;  // one number each, or [n, ...] with an n of each sample's own
  std::int64_t index = 0;
};

}  // namespace ddp::worker
