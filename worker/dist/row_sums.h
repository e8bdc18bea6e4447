// Sums rows of numbers, in the order of the rows.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <vector>

namespace ddp::worker {

/// Sums the first `bytes` of each row, element by element: ((x0 + x1) + x2) + ... fp16 and bf16 are
/// summed in float32 and rounded once. Writes the sums to `sums`, which may be one of the rows, and
/// to `copy` unless that is null.
using SumRows = void (*)(const std::vector<const char*>& rows,
                         std::size_t bytes,
                         char* sums,
                         char* copy);

/// The function for a type; null: the type is not supported.
SumRows sum_rows_of(at::ScalarType type);

}  // namespace ddp::worker
