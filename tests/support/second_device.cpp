#include "tests/support/second_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace ddp::worker {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::HPU;
constexpr c10::DeviceIndex kDevices = 4;
constexpr c10::StreamId kStreams = 8;      // of a device; 0 is the default one
constexpr int kPoison = 0xff;              // NaN in every floating type
constexpr std::size_t kQuarantine = 1024;  // blocks that were freed and stay poisoned

struct {
  std::atomic<std::int64_t> launches, copies, allocations, host_waits, event_waits, early_frees;
} counters;

std::atomic<bool> is_busy{false};  // a BusySecondDevice lives

// --- What was launched, for one LaunchRecord at a time.

std::mutex record_mutex;
std::vector<std::string>* record = nullptr;

// --- Streams: what each was asked for and has not done yet.

class StreamQueue {
 public:
  using Position = std::uint64_t;

  void ask(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    ++asked_;
  }

  [[nodiscard]] Position asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

  [[nodiscard]] bool is_done(Position position) const { return done_ >= position; }

  /// Blocks: until all that was asked for before `position` is done.
  void run_to(Position position) {
    // Trap: two streams whose tasks wait for each other's earlier ones would lock in a circle.
    if (is_done(position)) return;
    const std::lock_guard lock(mutex_);
    while (done_ < position && !tasks_.empty()) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
      ++done_;
    }
  }
  void run_all() { run_to(~Position{0}); }

  /// A copy to the host that is done on the device, and that the host does not see before a wait.
  void land_later(std::function<void()> landing) {
    const std::lock_guard lock(mutex_);
    landings_.emplace_back(done_, std::move(landing));
  }

  /// The host has waited for `position`: it sees what was copied to it until there.
  void land(Position position) {
    const std::lock_guard lock(mutex_);
    host_waited_ = std::max(host_waited_, position);
    while (!landings_.empty() && landings_.front().first < position) {
      landings_.front().second();
      landings_.pop_front();
    }
  }
  [[nodiscard]] bool has_host_waited(Position position) const {
    const std::lock_guard lock(mutex_);
    return host_waited_ >= position;
  }

  /// What comes now waits until `other` is at `position`.
  void wait_for(StreamQueue& other, Position position) {
    ask([&other, position] { other.run_to(position); });
    const std::lock_guard lock(mutex_);
    Position& latest = waited_for_[&other];
    latest = std::max(latest, position);
  }
  [[nodiscard]] bool has_waited_for(const StreamQueue& other, Position position) const {
    const std::lock_guard lock(mutex_);
    const auto found = waited_for_.find(&other);
    return found != waited_for_.end() && found->second >= position;
  }

 private:
  mutable std::recursive_mutex mutex_;
  std::deque<std::function<void()>> tasks_;
  std::deque<std::pair<Position, std::function<void()>>> landings_;
  std::map<const StreamQueue*, Position> waited_for_;
  Position host_waited_ = 0;
  Position asked_ = 0;
  std::atomic<Position> done_ = 0;
};

StreamQueue& queue_of(const c10::Stream& stream) {
  static std::array<std::array<StreamQueue, kStreams>, kDevices> queues;
  return queues.at(static_cast<std::size_t>(stream.device_index()))
      .at(static_cast<std::size_t>(stream.id()));
}

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kDevices> current_streams{};

c10::Stream stream_of(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, index), id);
}

c10::Stream current_stream(c10::DeviceIndex index) {
  return stream_of(index, current_streams.at(static_cast<std::size_t>(index)));
}

void wait_for_all(const c10::Stream& stream) {
  StreamQueue& queue = queue_of(stream);
  queue.run_all();
  queue.land(queue.asked());
}

/// An operator begins there: what its stream was asked for before is done.
void begin_launch(const c10::Stream& stream) {
  queue_of(stream).ask([] {});
  queue_of(stream).run_all();
}

// --- Events.

struct LateEvent {
  c10::Stream stream;
  StreamQueue::Position position = 0;
  bool was_busy = false;  // the device, when the event was recorded
};

// --- Memory.

/// The same pages twice: where tensors say that they lie nobody can read or write.
class Block {
 public:
  /// For the work of `stream`.
  Block(std::size_t size, const c10::Stream& stream) : size_(size), stream_(stream) {
    if (size == 0) return;
    const int file = ::memfd_create("second_device", MFD_CLOEXEC);
    TORCH_CHECK(file >= 0 && ::ftruncate(file, static_cast<off_t>(size)) == 0, "no memory file");
    closed_ = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, file, 0);
    open_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    TORCH_CHECK(closed_ != MAP_FAILED && open_ != MAP_FAILED, "mmap failed");
    poison();
  }
  ~Block() {
    if (size_ == 0) return;
    ::munmap(closed_, size_);
    ::munmap(open_, size_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  [[nodiscard]] void* closed() const { return closed_; }
  [[nodiscard]] void* open() const { return open_; }
  [[nodiscard]] const c10::Stream& stream() const { return stream_; }

  void poison() {
    if (size_ > 0) std::memset(open_, kPoison, size_);
  }

  /// LibTorch was told that `stream` uses it: it is given out again after what that stream was
  /// asked for before it was freed.
  void record(const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    if (stream != stream_) recorded_.insert_or_assign(stream.id(), stream);
  }
  [[nodiscard]] std::vector<c10::Stream> recorded() {
    const std::lock_guard lock(mutex_);
    std::vector<c10::Stream> streams;
    for (const auto& [id, stream] : recorded_)
      streams.push_back(stream);
    return streams;
  }

  /// An operator on `stream` reads or writes it.
  void note_operator(const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    if (stream != stream_)
      operators_.insert_or_assign(stream.id(), LateEvent{stream, queue_of(stream).asked()});
  }
  /// Whether it may be given out again in the order of its stream while an operator of another one
  /// is not done with it.
  [[nodiscard]] bool is_freed_early() {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(operators_, [this](const auto& one) {
      const LateEvent& last = one.second;
      const StreamQueue& queue = queue_of(last.stream);
      return !recorded_.contains(last.stream.id()) && !queue.has_host_waited(last.position) &&
             !queue_of(stream_).has_waited_for(queue, last.position);
    });
  }

 private:
  std::size_t size_;
  c10::Stream stream_;
  void* closed_ = nullptr;
  void* open_ = nullptr;
  std::mutex mutex_;
  std::map<c10::StreamId, c10::Stream> recorded_;  // others that LibTorch was told of
  std::map<c10::StreamId, LateEvent> operators_;   // the last of each other stream
};

/// Freed memory that stays poisoned, so that who reads it too late reads NaN.
void keep_poisoned(std::shared_ptr<Block> block) {
  static std::mutex mutex;
  static std::deque<std::shared_ptr<Block>> blocks;
  block->poison();
  const std::lock_guard lock(mutex);
  blocks.push_back(std::move(block));
  if (blocks.size() > kQuarantine) blocks.pop_front();
}

using BlockOwner = std::shared_ptr<Block>;

void free_block(void* context) {
  const std::unique_ptr<BlockOwner> owner(static_cast<BlockOwner*>(context));
  const BlockOwner block = *owner;
  if (block->is_freed_early()) ++counters.early_frees;
  StreamQueue& queue = queue_of(block->stream());
  for (const c10::Stream& other : block->recorded())
    queue.wait_for(queue_of(other), queue_of(other).asked());
  queue.ask([block] { keep_poisoned(block); });
}

BlockOwner block_of(const at::Tensor& tensor) {
  return *static_cast<BlockOwner*>(tensor.storage().data_ptr().get_context());
}

class LateAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    const c10::Stream stream = current_stream(current_device);
    auto owner = std::make_unique<BlockOwner>(std::make_shared<Block>(size, stream));
    if (size > 0) ++counters.allocations;
    void* const data = (*owner)->closed();
    return {data, owner.release(), &free_block, stream.device()};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*size*/) const override {
    TORCH_CHECK(false, "a storage of the second device cannot be copied");
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& memory, c10::Stream stream) override {
    if (memory.get_context() != nullptr)
      (*static_cast<BlockOwner*>(memory.get_context()))->record(stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override {
    return {kSecondDeviceFreeBytes, kSecondDeviceFreeBytes};
  }
};

LateAllocator& allocator() {
  static auto* const one = new LateAllocator;
  return *one;
}

REGISTER_ALLOCATOR(kType, &allocator())

/// Memory of the host that copies may begin in and end in later.
class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    auto* const data = new std::byte[size > 0 ? size : 1];
    const std::lock_guard lock(mutex_);
    sizes_[data] = size;
    return {data, data, &give_back, at::kCPU};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    std::memcpy(to, from, size);
  }
  [[nodiscard]] bool has(const void* data) {
    const std::lock_guard lock(mutex_);
    const auto after = sizes_.upper_bound(static_cast<const std::byte*>(data));
    if (after == sizes_.begin()) return false;
    const auto& [begin, size] = *std::prev(after);
    return data < begin + size;
  }

 private:
  static void give_back(void* data);

  std::mutex mutex_;
  std::map<const std::byte*, std::size_t> sizes_;
};

PinnedMemory& pinned_memory() {
  static auto* const one = new PinnedMemory;
  return *one;
}

void PinnedMemory::give_back(void* data) {
  PinnedMemory& all = pinned_memory();
  auto* const begin = static_cast<std::byte*>(data);
  {
    const std::lock_guard lock(all.mutex_);
    std::memset(begin, kPoison, all.sizes_[begin]);
    all.sizes_.erase(begin);
  }
  delete[] begin;
}

// --- What c10 and ATen ask of a device.

class LateGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  [[nodiscard]] c10::DeviceType type() const override { return kType; }
  [[nodiscard]] c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device old = getDevice();
    setDevice(device);
    return old;
  }
  [[nodiscard]] c10::Device getDevice() const override { return {kType, current_device}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < kDevices, "there are ", int{kDevices}, " second devices");
    current_device = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = device.index();
  }
  [[nodiscard]] c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.index());
  }
  [[nodiscard]] c10::Stream getDefaultStream(c10::Device device) const override {
    return stream_of(device.index(), 0);
  }
  [[nodiscard]] c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    static std::atomic<c10::StreamId> next{0};
    return stream_of(device.index(), 1 + next++ % (kStreams - 1));
  }
  [[nodiscard]] c10::Stream getNewStream(c10::Device device, int) const override {
    return getStreamFromGlobalPool(device, false);
  }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto index = static_cast<std::size_t>(stream.device_index());
    return stream_of(stream.device_index(), std::exchange(current_streams.at(index), stream.id()));
  }
  void record(void** event,
              const c10::Stream& stream,
              c10::DeviceIndex,
              c10::EventFlag) const override {
    delete static_cast<LateEvent*>(*event);
    *event = new LateEvent{stream, queue_of(stream).asked(), is_busy};
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const LateEvent awaited = *static_cast<LateEvent*>(event);
    if (awaited.stream == stream) return;
    queue_of(stream).wait_for(queue_of(awaited.stream), awaited.position);
  }
  /// Not yet, where anything is left to do: that is done then, for who asks again.
  [[nodiscard]] bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const LateEvent& asked = *static_cast<LateEvent*>(event);
    if (asked.was_busy && is_busy) return false;
    StreamQueue& queue = queue_of(asked.stream);
    const bool is_done = queue.is_done(asked.position);
    queue.run_to(asked.position);
    if (is_done) queue.land(asked.position);
    return is_done;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<LateEvent*>(event);
  }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  [[nodiscard]] bool queryStream(const c10::Stream& stream) const override {
    return queue_of(stream).is_done(queue_of(stream).asked());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    ++counters.host_waits;
    wait_for_all(stream);
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    ++counters.event_waits;
    const LateEvent& awaited = *static_cast<LateEvent*>(event);
    queue_of(awaited.stream).run_to(awaited.position);
    queue_of(awaited.stream).land(awaited.position);
  }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    ++counters.host_waits;
    for (c10::StreamId id = 0; id < kStreams; ++id)
      wait_for_all(stream_of(index, id));
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    allocator().recordStream(memory, stream);
  }
};

class LateHooks final : public at::HPUHooksInterface {
 public:
  explicit LateHooks(const at::HPUHooksArgs& /*none*/) {}
  void init() const override {}
  [[nodiscard]] bool hasHPU() const override { return true; }
  /// Its operators draw where the CPU's do.
  [[nodiscard]] const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  [[nodiscard]] bool isBuilt() const override { return true; }
  [[nodiscard]] bool isAvailable() const override { return true; }
  [[nodiscard]] bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  [[nodiscard]] c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex index) const override { current_device = index; }
  [[nodiscard]] c10::DeviceIndex getCurrentDevice() const override { return current_device; }
  [[nodiscard]] c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return std::exchange(current_device, index);
  }
  [[nodiscard]] c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return std::exchange(current_device, index);
  }
  [[nodiscard]] bool isPinnedPtr(const void* data) const override {
    return pinned_memory().has(data);
  }
  [[nodiscard]] c10::Allocator* getPinnedMemoryAllocator() const override {
    return &pinned_memory();
  }
};

// --- Operators: the CPU's, on the same memory.

bool is_late(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kType;
}

/// A tensor of the CPU on the memory of a late one, which outlives it.
at::Tensor host_view(const at::Tensor& tensor) {
  const c10::Storage storage(c10::Storage::use_byte_size_t{},
                             tensor.storage().nbytes(),
                             c10::DataPtr(block_of(tensor)->open(), at::kCPU),
                             c10::GetAllocator(at::kCPU),
                             /*resizable=*/true);
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(
      tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return view;
}

const at::Tensor& resize_late(const at::Tensor& self,
                              at::IntArrayRef size,
                              std::optional<at::MemoryFormat> /*format*/) {
  const auto bytes = static_cast<std::size_t>(c10::multiply_integers(size)) * self.itemsize();
  auto* const tensor = self.unsafeGetTensorImpl();
  if (bytes > self.storage().nbytes()) {
    TORCH_CHECK(self.numel() == 0, "the second device does not keep what it enlarges");
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

  /// The operator begins, with the tensors so far.
  void launch(const std::string& name) const {
    const c10::Stream stream = current_stream(index);
    begin_launch(stream);
    ++counters.launches;
    for (const auto& [late, host] : pairs_)
      block_of(late)->note_operator(stream);
    const std::lock_guard lock(record_mutex);
    if (record != nullptr) record->push_back(name);
  }

  at::Tensor to_late(const at::Tensor& tensor) const {
    if (!tensor.defined()) return tensor;
    for (const auto& [late, host] : pairs_) {
      if (host.is_same(tensor)) return late;
    }
    for (const auto& [late, host] : pairs_) {
      TORCH_CHECK(tensor.numel() == 0 || tensor.storage().data() != host.storage().data(),
                  "an operator that returns a view is not known to the second device");
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
  for (std::size_t i = stack->size() - arguments; i < stack->size(); ++i)
    (*stack)[i] = to_host((*stack)[i], exchange);
  exchange.launch(op.schema().name());
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

/// Those that LibTorch would take apart, tensor by tensor, where CUDA has one kernel for all.
void register_fused(torch::Library& library) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("aten::_foreach_") && !name.name.starts_with("aten::_fused_adam") &&
        !name.name.starts_with("aten::_fused_sgd"))
      continue;
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

DeviceCounts second_device_counts() {
  return {counters.launches,
          counters.copies,
          counters.allocations,
          counters.host_waits,
          counters.event_waits,
          counters.early_frees};
}

BusySecondDevice::BusySecondDevice() {
  is_busy = true;
}

BusySecondDevice::~BusySecondDevice() {
  is_busy = false;
}

LaunchRecord::LaunchRecord() {
  const std::lock_guard lock(record_mutex);
  record = new std::vector<std::string>;
}

LaunchRecord::~LaunchRecord() {
  const std::lock_guard lock(record_mutex);
  delete std::exchange(record, nullptr);
}

std::vector<std::string> LaunchRecord::names() const {
  const std::lock_guard lock(record_mutex);
  return *record;
}

at::Device second_device(int index) {
  return {kType, static_cast<at::DeviceIndex>(index)};
}

}  // namespace ddp::worker

namespace {

using ddp::worker::LateGuard;
using ddp::worker::LateHooks;

C10_REGISTER_GUARD_IMPL(HPU, LateGuard);

using at::HPUHooksRegistry;
using at::RegistererHPUHooksRegistry;
C10_REGISTER_CLASS(HPUHooksRegistry, HPUHooks, LateHooks);

}  // namespace
