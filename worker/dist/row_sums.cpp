#include "worker/dist/row_sums.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace ddp::worker {
namespace {

/// fp16 and bf16 are summed in float32.
template <typename Element>
using Accumulator =
    std::conditional_t<std::is_same_v<Element, c10::Half> || std::is_same_v<Element, c10::BFloat16>,
                       float,
                       Element>;

/// See SumRows. Works in blocks of a fixed size, so that the compiler can vectorize the loops.
template <typename Element>
void sum_rows(const std::vector<const char*>& rows, std::size_t count, Element* sums, char* copy) {
  constexpr std::size_t kBlock = 512;
  Accumulator<Element> accumulators[kBlock];
  const auto sum_block = [&](std::size_t begin, const auto size) {
    const auto* const first = reinterpret_cast<const Element*>(rows[0]) + begin;
    for (std::size_t i = 0; i < size; ++i)
      accumulators[i] = static_cast<Accumulator<Element>>(first[i]);
    for (std::size_t rank = 1; rank < rows.size(); ++rank) {
      const auto* const row = reinterpret_cast<const Element*>(rows[rank]) + begin;
      for (std::size_t i = 0; i < size; ++i)
        accumulators[i] += static_cast<Accumulator<Element>>(row[i]);
    }
    for (std::size_t i = 0; i < size; ++i)
      sums[begin + i] = static_cast<Element>(accumulators[i]);
    if (copy) std::memcpy(copy + begin * sizeof(Element), sums + begin, size * sizeof(Element));
  };
  std::size_t begin = 0;
  for (; begin + kBlock <= count; begin += kBlock)
    sum_block(begin, std::integral_constant<std::size_t, kBlock>());
  if (begin < count) sum_block(begin, count - begin);
}

template <typename Element>
constexpr SumRows kSumRows =
    [](const std::vector<const char*>& rows, std::size_t bytes, char* sums, char* copy) {
      sum_rows(rows, bytes / sizeof(Element), reinterpret_cast<Element*>(sums), copy);
    };

}  // namespace

SumRows sum_rows_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return kSumRows<float>;
    case at::kDouble:
      return kSumRows<double>;
    case at::kHalf:
      return kSumRows<c10::Half>;
    case at::kBFloat16:
      return kSumRows<c10::BFloat16>;
    case at::kLong:
      return kSumRows<std::int64_t>;
    case at::kInt:
      return kSumRows<std::int32_t>;
    default:
      return nullptr;
  }
}

}  // namespace ddp::worker
