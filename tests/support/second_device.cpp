#include "tests/support/second_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>

namespace ddp::worker {
namespace {

// LibTorch has no operations of its own for this type, but knows it: modules may move to it, and it
// has a thread for backward.
constexpr at::DeviceType kType = at::DeviceType::HPU;
constexpr at::DispatchKeySet kKeys(at::DispatchKey::HPU);

std::atomic<std::int64_t> waits{0};
std::atomic<bool> is_busy{false};
/// In an operation that the CPU does for the device: its copies are no waits of the host.
thread_local int borrowed = 0;

struct Borrowed {
  Borrowed() { ++borrowed; }
  ~Borrowed() { --borrowed; }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
};

// --- memory ---

struct Block {
  void* data;
  std::size_t size;
};

void protect(const Block& block, int access) {
  TORCH_CHECK(::mprotect(block.data, block.size, access) == 0, "mprotect failed");
}

void give_back(void* context) {
  auto* const block = static_cast<Block*>(context);
  ::munmap(block->data, block->size);
  delete block;
}

class Memory : public c10::Allocator {
 public:
  at::DataPtr allocate(std::size_t size) override {
    if (size == 0) return {nullptr, second_device()};
    void* const data = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(data != MAP_FAILED, "mmap failed");
    return {data, new Block{data, size}, &give_back, second_device()};
  }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*size*/) const override {
    TORCH_CHECK(false, "a storage of the second device cannot be copied");
  }
};

Memory memory;

/// A tensor of the device as one of the CPU, while the memory can be reached.
class Reached {
 public:
  explicit Reached(const at::Tensor& tensor) : lock_(mutex_) {
    if (tensor.device().type() != kType) {
      tensor_ = tensor;
      return;
    }
    block_ = static_cast<const Block*>(tensor.storage().data_ptr().get_context());
    const at::TensorOptions options = tensor.options().device(at::kCPU);
    if (block_ == nullptr) {
      tensor_ = at::empty_strided(tensor.sizes(), tensor.strides(), options);
      return;
    }
    protect(*block_, PROT_READ | PROT_WRITE);
    char* const first = static_cast<char*>(block_->data);
    const auto offset = static_cast<std::size_t>(tensor.storage_offset()) * tensor.itemsize();
    tensor_ = at::from_blob(first + offset, tensor.sizes(), tensor.strides(), options);
  }
  ~Reached() {
    if (block_ != nullptr) ::mprotect(block_->data, block_->size, PROT_NONE);
  }
  Reached(const Reached&) = delete;
  Reached& operator=(const Reached&) = delete;

  at::Tensor& tensor() { return tensor_; }

 private:
  static std::recursive_mutex mutex_;  // two threads may reach for one block

  std::lock_guard<std::recursive_mutex> lock_;
  const Block* block_ = nullptr;
  at::Tensor tensor_;
};

std::recursive_mutex Reached::mutex_;

// --- operations that are its own ---

at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool /*non_blocking*/) {
  if (borrowed == 0 && source.device().type() == kType && self.device().type() != kType) ++waits;
  // Of two views of one block the first to go would close it.
  const at::Tensor from = Reached(source).tensor().clone();
  Reached(self).tensor().copy_(from);
  return self;
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  at::Tensor to = target;
  return copy(to, source, non_blocking);
}

const at::Tensor& resize(const at::Tensor& self,
                         at::IntArrayRef size,
                         std::optional<at::MemoryFormat> /*format*/) {
  const auto bytes =
      static_cast<std::size_t>(c10::multiply_integers(size)) * self.dtype().itemsize();
  auto* const tensor = self.unsafeGetTensorImpl();
  if (bytes > self.storage().nbytes()) {
    TORCH_CHECK(self.numel() == 0, "the second device does not keep what it enlarges");
    tensor->set_storage_keep_dtype(c10::Storage(
        c10::Storage::use_byte_size_t(), bytes, memory.allocate(bytes), &memory, true));
  }
  tensor->set_sizes_contiguous(size);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  at::Tensor to = target;
  if (to.sizes() != source.sizes()) to.resize_(source.sizes());
  return copy(to, source, false);
}

at::Tensor empty(at::IntArrayRef size,
                 std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> /*device*/,
                 std::optional<bool> /*pin_memory*/,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, kKeys, at::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size,
                         at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> /*layout*/,
                         std::optional<at::Device> /*device*/,
                         std::optional<bool> /*pin_memory*/) {
  return at::detail::empty_strided_generic(
      size, stride, &memory, kKeys, at::dtype_or_default(dtype));
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

at::Tensor to_host(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(at::kCPU) : tensor;
}

/// The CPU has none under this name.
at::Tensor convolution(const at::Tensor& input,
                       const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias,
                       at::IntArrayRef stride,
                       at::IntArrayRef padding,
                       at::IntArrayRef dilation,
                       bool is_transposed,
                       at::IntArrayRef output_padding,
                       std::int64_t groups) {
  const Borrowed borrowing;
  return at::convolution(to_host(input),
                         to_host(weight),
                         to_host(bias.value_or(at::Tensor())),
                         stride,
                         padding,
                         dilation,
                         is_transposed,
                         output_padding,
                         groups)
      .to(input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& gradient,
                                                                    const at::Tensor& input,
                                                                    const at::Tensor& weight,
                                                                    at::IntArrayRef stride,
                                                                    at::IntArrayRef padding,
                                                                    at::IntArrayRef dilation,
                                                                    bool is_transposed,
                                                                    at::IntArrayRef output_padding,
                                                                    std::int64_t groups,
                                                                    std::array<bool, 3> wanted) {
  const Borrowed borrowing;
  const auto [of_input, of_weight, of_bias] =
      at::convolution_backward(to_host(gradient),
                               to_host(input),
                               to_host(weight),
                               at::IntArrayRef{weight.size(0)},
                               stride,
                               padding,
                               dilation,
                               is_transposed,
                               output_padding,
                               groups,
                               wanted);
  const auto back = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(input.device()) : tensor;
  };
  return {back(of_input), back(of_weight), back(of_bias)};
}

/// The host must know what these give, or how large it is, unless it has been told.
bool makes_the_host_wait(std::string_view name, const torch::jit::Stack& arguments) {
  constexpr std::array<std::string_view, 8> names{"aten::_local_scalar_dense",
                                                  "aten::nonzero",
                                                  "aten::equal",
                                                  "aten::masked_select",
                                                  "aten::_unique2",
                                                  "aten::unique_dim",
                                                  "aten::is_nonzero",
                                                  "aten::bincount"};
  if (name == "aten::repeat_interleave") return arguments.back().isNone();
  return std::ranges::find(names, name) != names.end();
}

void on_the_cpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  if (borrowed == 0 && makes_the_host_wait(operation.schema().name(), *stack)) ++waits;
  const Borrowed borrowing;
  at::native::cpu_fallback(operation, stack);
}

TORCH_LIBRARY_IMPL(_, HPU, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

TORCH_LIBRARY_IMPL(aten, HPU, library) {
  library.impl("copy_", &copy);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("resize_", &resize);
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &as_strided);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("convolution_overrideable", &convolution);
  library.impl("convolution_backward_overrideable", &convolution_backward);
}

}  // namespace

at::Device second_device() {
  return {kType, 0};
}

std::int64_t waits_for_second_device() {
  return waits;
}

BusySecondDevice::BusySecondDevice() {
  is_busy = true;
}

BusySecondDevice::~BusySecondDevice() {
  is_busy = false;
}

}  // namespace ddp::worker

namespace {

using ddp::worker::is_busy;
using ddp::worker::second_device;

thread_local at::StreamId current_stream = 0;

/// LibTorch asks for streams and for the current device of every type that has tensors.
struct SecondDeviceGuard : c10::impl::NoOpDeviceGuardImpl<at::DeviceType::HPU> {
  at::Device getDevice() const override { return second_device(); }
  at::Device exchangeDevice(at::Device /*other*/) const override { return second_device(); }
  at::Stream getStream(at::Device device) const noexcept override {
    return at::Stream(at::Stream::UNSAFE, device, current_stream);
  }
  at::Stream getDefaultStream(at::Device device) const override {
    return at::Stream(at::Stream::DEFAULT, device);
  }
  at::Stream getNewStream(at::Device device, int /*priority*/) const override {
    return at::Stream(at::Stream::UNSAFE, device, 1);
  }
  at::Stream exchangeStream(at::Stream other) const noexcept override {
    const at::Stream before = getStream(other.device());
    current_stream = other.id();
    return before;
  }
  void record(void** event,
              const at::Stream& /*stream*/,
              const at::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new bool;
    *static_cast<bool*>(*event) = !is_busy;
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || *static_cast<bool*>(event) || !is_busy;
  }
  void synchronizeEvent(void* event) const override {
    while (!queryEvent(event))
      std::this_thread::yield();
  }
  void destroyEvent(void* event, const at::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<bool*>(event);
  }
};

C10_REGISTER_GUARD_IMPL(HPU, SecondDeviceGuard);

/// And whether it is there at all.
struct SecondDeviceHooks : at::HPUHooksInterface {
  explicit SecondDeviceHooks(const at::HPUHooksArgs& /*none*/) {}
  void init() const override {}
  bool hasHPU() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  at::DeviceIndex deviceCount() const override { return 1; }
  at::DeviceIndex getCurrentDevice() const override { return 0; }
  bool hasPrimaryContext(at::DeviceIndex /*index*/) const override { return true; }
  /// To its copies any memory of the host's is alike.
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetDefaultCPUAllocator(); }
  /// Its operations draw where the CPU's do.
  const at::Generator& getDefaultGenerator(at::DeviceIndex /*index*/) const override {
    return at::detail::getDefaultCPUGenerator();
  }
};

using at::HPUHooksRegistry;
using at::RegistererHPUHooksRegistry;
C10_REGISTER_CLASS(HPUHooksRegistry, HPUHooks, SecondDeviceHooks);

}  // namespace
