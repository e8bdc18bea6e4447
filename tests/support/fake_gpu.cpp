#include "tests/support/fake_gpu.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <cstddef>
#include <utility>

#include "tests/support/fake_gpu_memory.h"
#include "tests/support/fake_gpu_streams.h"

namespace ddp::worker {
namespace late {
namespace {

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
    TORCH_CHECK(device.index() < kDevices, "there are ", int{kDevices}, " fake GPUs");
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
    return stream_of(device.index(), 1 + next++ % (kCollectives - 1));
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

}  // namespace
}  // namespace late

DeviceCounts fake_gpu_counts() {
  return {late::counters.launches,
          late::counters.copies,
          late::counters.allocations,
          late::counters.host_waits,
          late::counters.event_waits,
          late::counters.early_frees};
}

BusyFakeGpu::BusyFakeGpu() {
  late::is_busy = true;
}

BusyFakeGpu::~BusyFakeGpu() {
  late::is_busy = false;
}

FullFakeGpu::FullFakeGpu() {
  late::is_full = true;
}

FullFakeGpu::~FullFakeGpu() {
  late::is_full = false;
}

at::Device fake_gpu(int index) {
  return {late::kType, static_cast<at::DeviceIndex>(index)};
}

}  // namespace ddp::worker

namespace {

using ddp::worker::late::LateGuard;
using ddp::worker::late::LateHooks;

C10_REGISTER_GUARD_IMPL(HPU, LateGuard);

using at::HPUHooksRegistry;
using at::RegistererHPUHooksRegistry;
C10_REGISTER_CLASS(HPUHooksRegistry, HPUHooks, LateHooks);

[[maybe_unused]] const bool is_registered = [] {
  c10::SetAllocator(ddp::worker::late::kType, &ddp::worker::late::allocator());
  at::set_num_threads(1);  // its operators are small
  return true;
}();

}  // namespace
