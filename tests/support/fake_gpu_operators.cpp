// The operators of fake GPUs: the CPU's, on the same memory.
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/fake_gpu_memory.h"
#include "tests/support/fake_gpu_record.h"
#include "tests/support/fake_gpu_streams.h"

namespace ddp::worker::late {
namespace {

bool is_late(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kType;
}

const at::Tensor& resize_late(const at::Tensor& self,
                              at::IntArrayRef size,
                              std::optional<at::MemoryFormat> /*format*/) {
  const auto bytes = static_cast<std::size_t>(c10::multiply_integers(size)) * self.itemsize();
  auto* const tensor = self.unsafeGetTensorImpl();
  if (bytes > self.storage().nbytes()) {
    TORCH_CHECK(self.numel() == 0, "the fake GPU does not keep what it enlarges");
    const c10::OptionalDeviceGuard guard(self.device());
    tensor->set_storage_keep_dtype(c10::Storage(
        c10::Storage::use_byte_size_t(), bytes, allocator().allocate(bytes), &allocator(), true));
  }
  tensor->set_sizes_contiguous(size);
  return self;
}

/// A late tensor with the values and strides of one of the CPU.
at::Tensor late_copy(const at::Tensor& tensor, c10::DeviceIndex index) {
  const c10::impl::VirtualGuardImpl guard(kType);
  const c10::Device old = guard.exchangeDevice({kType, index});
  c10::DataPtr memory = allocator().allocate(tensor.storage().nbytes());
  guard.setDevice(old);
  void* const open = (*static_cast<BlockOwner*>(memory.get_context()))->open();
  if (open != nullptr) std::memcpy(open, tensor.storage().data(), tensor.storage().nbytes());
  c10::Storage storage(c10::Storage::use_byte_size_t{},
                       tensor.storage().nbytes(),
                       std::move(memory),
                       &allocator(),
                       /*resizable=*/true);
  at::Tensor late = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::HPU), tensor.dtype());
  late.unsafeGetTensorImpl()->set_sizes_and_strides(
      tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return late;
}

/// The tensors of one call: late ones, and the CPU's in their place.
class Exchange {
 public:
  at::Tensor to_host(const at::Tensor& tensor) {
    if (!is_late(tensor)) return tensor;
    index = tensor.device().index();
    for (const auto& [late, host] : pairs_) {
      if (late.is_same(tensor)) return host;
    }
    return pairs_.emplace_back(tensor, host_view(tensor)).second;
  }

  /// The operator begins, with the tensors so far; `values` are its other arguments.
  void launch(const std::string& name, const std::string& values = "") const {
    const c10::Stream stream = current_stream(index);
    begin_launch(stream);
    ++counters.launches;
    std::vector<at::Tensor> tensors;
    for (const auto& [late, host] : pairs_) {
      block_of(late)->note_operator(stream);
      tensors.push_back(late);
    }
    note_launch(name, tensors, values);
  }

  at::Tensor to_late(const at::Tensor& tensor) const {
    if (!tensor.defined()) return tensor;
    for (const auto& [late, host] : pairs_) {
      if (host.is_same(tensor)) return late;
    }
    for (const auto& [late, host] : pairs_) {
      TORCH_CHECK(tensor.numel() == 0 || tensor.storage().data() != host.storage().data(),
                  "an operator that returns a view is not known to the fake GPU");
    }
    return late_copy(tensor, index);
  }

  /// Those that the call has given another size.
  void take_sizes() const {
    for (const auto& [late, host] : pairs_) {
      if (late.sizes() == host.sizes()) continue;
      resize_late(late, host.sizes(), std::nullopt);
      host_view(late).copy_(host);
    }
  }

  c10::DeviceIndex index = current_device;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

c10::IValue to_host(const c10::IValue& value, Exchange& exchange) {
  if (value.isTensor()) return exchange.to_host(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& one : value.toTensorVector())
      list.push_back(exchange.to_host(one));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector())
      list.push_back(one ? std::optional(exchange.to_host(*one)) : std::nullopt);
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == kType) {
    if (value.toDevice().has_index()) exchange.index = value.toDevice().index();
    return c10::Device(at::kCPU);
  }
  return value;
}

/// What the host says by it of what a kernel does: also a number in a tensor of the CPU, which
/// LibTorch makes of the 2 in `tensor * 2`.
std::string value_of(const c10::IValue& value) {
  std::ostringstream text;
  if (value.isScalar() || value.isBool() || value.isIntList() || value.isDoubleList() ||
      value.isString())
    text << value << ' ';
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cpu() &&
      value.toTensor().dim() == 0)
    text << value.toTensor().item() << ' ';
  return text.str();
}

c10::IValue to_late(const c10::IValue& value, const Exchange& exchange) {
  if (value.isTensor()) return exchange.to_late(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& one : value.toTensorVector())
    list.push_back(exchange.to_late(one));
  return list;
}

/// The host must know what these give, or how large it is, unless it has been told.
bool makes_the_host_wait(std::string_view name, const torch::jit::Stack& arguments) {
  constexpr std::array<std::string_view, 7> names{"aten::nonzero",
                                                  "aten::equal",
                                                  "aten::masked_select",
                                                  "aten::_unique2",
                                                  "aten::unique_dim",
                                                  "aten::is_nonzero",
                                                  "aten::bincount"};
  if (name == "aten::repeat_interleave") return arguments.back().isNone();
  return std::ranges::find(names, name) != names.end();
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t arguments = op.schema().arguments().size();
  const std::size_t results = op.schema().returns().size();
  if (makes_the_host_wait(op.schema().name(), *stack)) ++counters.host_waits;
  Exchange exchange;
  std::string values;
  for (std::size_t i = stack->size() - arguments; i < stack->size(); ++i) {
    values += value_of((*stack)[i]);
    (*stack)[i] = to_host((*stack)[i], exchange);
  }
  exchange.launch(op.schema().name(), values);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  exchange.take_sizes();
  for (std::size_t i = stack->size() - results; i < stack->size(); ++i)
    (*stack)[i] = to_late((*stack)[i], exchange);
}

at::Tensor empty_strided(at::IntArrayRef size,
                         at::IntArrayRef stride,
                         std::optional<at::ScalarType> type,
                         std::optional<at::Layout>,
                         std::optional<at::Device> device,
                         std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size,
                                           stride,
                                           &allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::HPU),
                                           type.value_or(at::kFloat));
}

at::Tensor empty(at::IntArrayRef size,
                 std::optional<at::ScalarType> type,
                 std::optional<at::Layout>,
                 std::optional<at::Device> device,
                 std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size,
                                   &allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::HPU),
                                   type.value_or(at::kFloat),
                                   format);
}

/// As CUDA's copy_: a copy between the host's pageable memory and the device makes the host wait.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool is_non_blocking) {
  if (to.numel() == 0) return to;
  if (is_late(from) && is_late(to)) {
    Exchange exchange;
    const at::Tensor source = exchange.to_host(from);
    const at::Tensor target = exchange.to_host(to);
    exchange.launch("aten::copy_");
    target.copy_(source);
    return to;
  }
  const at::Tensor& late = is_late(from) ? from : to;
  const at::Tensor& host = is_late(from) ? to : from;
  const c10::Stream stream = current_stream(late.device().index());
  StreamQueue& queue = queue_of(stream);
  ++counters.copies;
  if (!is_non_blocking || !pinned_memory().has(host.storage().data())) {
    ++counters.host_waits;
    wait_for_all(stream);
    is_late(from) ? (void)host.copy_(host_view(late)) : (void)host_view(late).copy_(host);
    return to;
  }
  note_copy(is_late(to) ? "to the device" : "to the host", late, host.data_ptr());
  // The block is held, so that what comes too late writes to poisoned memory and not to another's.
  if (is_late(to)) {
    queue.ask([view = host_view(late), host, block = block_of(late)] { view.copy_(host); });
    return to;
  }
  queue.ask([&queue, view = host_view(late), host, block = block_of(late)] {
    queue.land_later([value = view.clone(), host] { host.copy_(value); });
  });
  return to;
}

at::Tensor copy_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) resize_late(to, from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

at::Scalar to_scalar(const at::Tensor& tensor) {
  ++counters.host_waits;
  wait_for_all(current_stream(tensor.device().index()));
  return host_view(tensor).item();
}

void record_stream(at::Tensor& tensor, at::Stream stream) {
  allocator().recordStream(tensor.storage().data_ptr(), stream);
}

at::Tensor as_strided(const at::Tensor& self,
                      at::IntArrayRef size,
                      at::IntArrayRef stride,
                      std::optional<std::int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

at::Tensor& set_storage(at::Tensor& self,
                        at::Storage source,
                        std::int64_t offset,
                        at::IntArrayRef size,
                        at::IntArrayRef stride) {
  auto* const tensor = self.unsafeGetTensorImpl();
  tensor->set_storage_keep_dtype(std::move(source));
  tensor->set_sizes_and_strides(size, stride, offset);
  return self;
}

at::Tensor run_convolution(const at::Tensor& input,
                           const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias,
                           at::IntArrayRef stride,
                           at::IntArrayRef padding,
                           at::IntArrayRef dilation,
                           bool transposed,
                           at::IntArrayRef output_padding,
                           std::int64_t groups) {
  Exchange exchange;
  const at::Tensor x = exchange.to_host(input);
  const at::Tensor w = exchange.to_host(weight);
  const std::optional<at::Tensor> b = bias ? std::optional(exchange.to_host(*bias)) : std::nullopt;
  exchange.launch("aten::convolution");
  return exchange.to_late(
      at::convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> run_convolution_backward(
    const at::Tensor& gradient,
    const at::Tensor& input,
    const at::Tensor& weight,
    at::IntArrayRef stride,
    at::IntArrayRef padding,
    at::IntArrayRef dilation,
    bool transposed,
    at::IntArrayRef output_padding,
    std::int64_t groups,
    std::array<bool, 3> mask) {
  Exchange exchange;
  const at::Tensor dy = exchange.to_host(gradient);
  const at::Tensor x = exchange.to_host(input);
  const at::Tensor w = exchange.to_host(weight);
  exchange.launch("aten::convolution_backward");
  const std::vector<std::int64_t> bias_size{gradient.size(1)};
  auto [dx, dw, db] = at::convolution_backward(dy,
                                               x,
                                               w,
                                               at::OptionalIntArrayRef(bias_size),
                                               stride,
                                               padding,
                                               dilation,
                                               transposed,
                                               output_padding,
                                               groups,
                                               mask);
  return {exchange.to_late(dx), exchange.to_late(dw), exchange.to_late(db)};
}

/// Whether LibTorch would take it apart, tensor by tensor or into its formula, where CUDA has one
/// kernel.
bool is_fused(const std::string& name) {
  return name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_adam") ||
         name.starts_with("aten::_fused_sgd") || name == "aten::silu_backward" ||
         name == "aten::mish_backward";
}

void register_fused(torch::Library& library) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!is_fused(name.name)) continue;
    std::string text = name.name.substr(6);
    if (!name.overload_name.empty()) text += "." + name.overload_name;
    library.impl(text.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  }
}

TORCH_LIBRARY_IMPL(_, HPU, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, HPU, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_and_resize);
  library.impl("_local_scalar_dense", &to_scalar);
  library.impl("record_stream", &record_stream);
  library.impl("as_strided", &as_strided);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("resize_", &resize_late);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("convolution_overrideable", &run_convolution);
  library.impl("convolution_backward_overrideable", &run_convolution_backward);
  register_fused(library);
}

}  // namespace
}  // namespace ddp::worker::late
