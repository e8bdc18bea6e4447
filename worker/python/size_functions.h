// Python's operators on the sizes of tensors, which torch.export leaves in a graph.
#pragma once

#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

namespace ddp::worker {

/// Errors: std::runtime_error: too few operands, a result that is too large, or a division by 0;
/// c10::Error: an operand of another type.
using SizeFunction = c10::IValue (*)(const std::vector<c10::IValue>&);

/// By its name in the file, "_operator.mul"; null: it is not known.
SizeFunction size_function(std::string_view name);

}  // namespace ddp::worker
