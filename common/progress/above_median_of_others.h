// How far one rank stands out among all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace ddp {

/// A rank is worth naming as the slowest from this share of the time on.
inline constexpr double kSlowShare = 0.15;

/// The value of one rank beyond the median of all others. Precondition: two ranks or more, and no
/// value is NaN.
inline double above_median_of_others(std::span<const double> values, std::size_t rank) {
  std::vector<double> others(values.begin(), values.end());
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(rank));
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  return values[rank] - *middle;
}

}  // namespace ddp
