#include "worker/save/checkpoint/tensor_copy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

#include "common/error.h"

namespace ddp::worker {
namespace {

constexpr std::array<std::pair<at::ScalarType, std::string_view>, 10> kTypes{{
    {at::kDouble, "F64"},
    {at::kFloat, "F32"},
    {at::kHalf, "F16"},
    {at::kBFloat16, "BF16"},
    {at::kLong, "I64"},
    {at::kInt, "I32"},
    {at::kShort, "I16"},
    {at::kChar, "I8"},
    {at::kByte, "U8"},
    {at::kBool, "BOOL"},
}};

at::ScalarType scalar_type(std::string_view dtype) {
  for (const auto& [type, name] : kTypes)
    if (name == dtype) return type;
  throw std::logic_error("a dtype that no reader hands out");
}

}  // namespace

std::string dtype_name(at::ScalarType wanted) {
  for (const auto& [type, name] : kTypes)
    if (type == wanted) return std::string(name);
  throw std::logic_error("a tensor type that no checkpoint holds");
}

std::string describe(std::string_view dtype, at::IntArrayRef shape) {
  std::string text = std::string(dtype) + " [";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::vector<TensorView> view(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    const auto* const bytes = static_cast<const std::byte*>(tensor.data_ptr());
    views.push_back(
        {name, dtype_name(tensor.scalar_type()), tensor.sizes().vec(), {bytes, tensor.nbytes()}});
  }
  return views;
}

at::Tensor to_tensor(const TensorView& saved) {
  const auto size = static_cast<std::int64_t>(saved.bytes.size());
  const at::Tensor block = at::empty({size}, at::kByte);
  if (size > 0) std::memcpy(block.data_ptr(), saved.bytes.data(), saved.bytes.size());
  const at::Tensor values = block.view(scalar_type(saved.dtype));
  return saved.strides.empty() ? values.view(saved.shape)
                               : values.as_strided(saved.shape, saved.strides);
}

void copy_to(const at::Tensor& tensor, const TensorView& view, std::byte* place) {
  const at::TensorOptions type = at::TensorOptions().dtype(scalar_type(view.dtype));
  const at::Tensor target = view.strides.empty()
                                ? at::from_blob(place, view.shape, type)
                                : at::from_blob(place, view.shape, view.strides, type);
  target.copy_(tensor);
}

void copy_from(const TensorFile& file,
               const std::string& what,
               std::vector<NamedTensor>& tensors,
               const std::set<std::string>& optional) {
  const at::NoGradGuard no_grad;
  std::vector<std::string> problems;
  std::set<std::string> wanted;
  for (const auto& [name, tensor] : tensors) {
    wanted.insert(name);
    const TensorView* const saved = file.find(name);
    const std::string ours = describe(dtype_name(tensor.scalar_type()), tensor.sizes());
    if (saved == nullptr && optional.contains(name)) continue;
    if (saved == nullptr) {
      problems.push_back(what + ": has no tensor \"" + name + "\", this job needs " + ours);
    } else if (const std::string theirs = describe(saved->dtype, saved->shape); theirs != ours) {
      problems.push_back(what + ": \"" + name + "\" is " + theirs + ", this job needs " + ours);
    }
  }
  for (const TensorView& saved : file.tensors()) {
    if (!wanted.contains(saved.name) && !optional.contains(saved.name))
      problems.push_back(what + ": \"" + saved.name + "\" is not in this job");
  }
  if (!problems.empty()) throw UsageError(problems);
  for (const auto& [name, tensor] : tensors)
    if (const TensorView* const saved = file.find(name)) tensor.copy_(to_tensor(*saved));
}

}  // namespace ddp::worker
