// Between tensors in memory and the tensors of files.
#pragma once

#include <ATen/core/Tensor.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "worker/model/named_tensor.h"
#include "worker/save/format/safetensors.h"

namespace ddp::worker {

/// The name that safetensors has for it. Errors: std::logic_error for a type that no file holds.
std::string dtype_name(at::ScalarType type);

/// "F32 [64, 3, 7, 7]", for messages.
std::string describe(std::string_view dtype, at::IntArrayRef shape);

/// Views of contiguous tensors, for writing; valid as long as these.
std::vector<TensorView> view(const std::vector<NamedTensor>& tensors);

/// The values of `saved` as a tensor of its own type and shape, aligned whatever the file says.
at::Tensor to_tensor(const TensorView& saved);

/// Copies the tensors of a file into `tensors` by name. `what` stands for the file in messages; of
/// the names in `optional` either side may lack any, and those that the file lacks stay as they
/// are. Errors: UsageError with every other name that is missing or extra, and with all of another
/// dtype or shape.
void copy_from(const TensorFile& file,
               const std::string& what,
               std::vector<NamedTensor>& tensors,
               const std::set<std::string>& optional = {});

}  // namespace ddp::worker
