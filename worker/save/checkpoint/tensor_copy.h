// Conversions between tensors in memory and tensors in files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "worker/model/named_tensor.h"
#include "worker/save/format/safetensors.h"

namespace ddp::worker {

/// The name of a dtype in safetensors. Errors: std::logic_error for a type that is not saved.
std::string dtype_name(at::ScalarType type);

/// "F32 [64, 3, 7, 7]", for messages.
std::string describe(std::string_view dtype, at::IntArrayRef shape);

/// Views of contiguous tensors, for writing; valid as long as the tensors exist.
std::vector<TensorView> view(const std::vector<NamedTensor>& tensors);

/// Copies `saved` into a new tensor of the same type and shape, aligned even if the file is not.
at::Tensor to_tensor(const TensorView& saved);

/// Copies `tensor` to `place`, which is laid out and typed as `view` says.
void copy_to(const at::Tensor& tensor, const TensorView& view, std::byte* place);

/// Copies the tensors of a file into `tensors` by name. `what` is the file's name in messages.
/// Names in `optional` may be missing on either side; if the file lacks one, its tensor is
/// unchanged. Errors: UsageError with every other name that is missing or extra, and every tensor
/// of another dtype or shape.
void copy_from(const TensorFile& file,
               const std::string& what,
               std::vector<NamedTensor>& tensors,
               const std::set<std::string>& optional = {});

}  // namespace ddp::worker
