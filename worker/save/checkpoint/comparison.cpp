#include "worker/save/checkpoint/comparison.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <string_view>

#include "worker/save/checkpoint/tensor_copy.h"

namespace ddp::worker {
namespace {

/// The tensor, dense: bytes in a file may have strides, and equal numbers of one dtype must have
/// equal bits.
at::Tensor dense(const TensorView& saved) {
  return to_tensor(saved).contiguous();
}

bool has_equal_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() &&
         std::string_view(static_cast<const char*>(a.data_ptr()), a.nbytes()) ==
             std::string_view(static_cast<const char*>(b.data_ptr()), b.nbytes());
}

std::optional<double> largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0;
  const at::Tensor wide_a = a.to(at::kDouble);
  const at::Tensor wide_b = b.to(at::kDouble);
  // The difference of two equal infinities would be NaN.
  const at::Tensor apart = at::where(wide_a.eq(wide_b), 0.0, (wide_a - wide_b).abs());
  const auto largest = apart.max().item<double>();
  return std::isnan(largest) ? std::nullopt : std::optional(largest);
}

}  // namespace

Comparison compare(const std::vector<TensorView>& first, const std::vector<TensorView>& second) {
  std::map<std::string_view, const TensorView*> others;
  for (const TensorView& one : second)
    others.emplace(one.name, &one);
  Comparison result;
  for (const TensorView& one : first) {
    const auto found = others.find(one.name);
    if (found == others.end()) {
      result.missing.push_back(one.name);
      continue;
    }
    const TensorView& other = *found->second;
    others.erase(found);
    if (one.shape != other.shape) {
      result.other_shape.push_back(one.name + ": " + describe(one.dtype, one.shape) + " and " +
                                   describe(other.dtype, other.shape));
      continue;
    }
    const at::Tensor a = dense(one);
    const at::Tensor b = dense(other);
    if (has_equal_bits(a, b)) {
      ++result.equal;
    } else {
      const bool is_same = one.dtype == other.dtype;
      result.different.push_back({one.name,
                                  is_same ? one.dtype : one.dtype + ", " + other.dtype,
                                  largest_difference(a, b)});
    }
  }
  for (const TensorView& one : second)
    if (others.contains(one.name)) result.extra.push_back(one.name);
  return result;
}

}  // namespace ddp::worker
