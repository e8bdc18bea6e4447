// A simulated GPU on the CPU: its copies and frees happen as late as a real GPU's may, so that a
// missing wait fails every time. Its operators are those of the CPU.
// - A pointer into its memory that the host follows ends the test by SIGSEGV, and a tensor that is
//   on the wrong device is LibTorch's error.
// - A copy to it from pinned memory happens when something behind it on its stream, or an event,
//   needs it. A copy to pinned memory is seen by the host only after a wait.
// - Memory is NaN when it is given out, and again when the stream that it was given out for comes
//   to where it was freed: a read of it on another stream, for which nobody has recorded it, is
//   NaN.
// - Backward runs on autograd's own thread of the device.
// It counts what a GPU would be asked for. Thread-safe.
// What it does not show: the kernels of CUDA, operators that run beside the host, what is faster.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddp::worker {

/// Linking this file registers four of them with LibTorch, under the type of an accelerator that no
/// test of ours has.
at::Device fake_gpu(int index = 0);

/// What each says that it has left; it takes more.
inline constexpr std::int64_t kFakeGpuFreeBytes = 1 << 20;

/// Event queries return false while it lives: nothing that is asked for from then on seems done.
class BusyFakeGpu {
 public:
  BusyFakeGpu();
  BusyFakeGpu(const BusyFakeGpu&) = delete;
  BusyFakeGpu& operator=(const BusyFakeGpu&) = delete;
  ~BusyFakeGpu();
};

/// While one lives, fake GPUs have no memory left, though they say otherwise.
class FullFakeGpu {
 public:
  FullFakeGpu();
  FullFakeGpu(const FullFakeGpu&) = delete;
  FullFakeGpu& operator=(const FullFakeGpu&) = delete;
  ~FullFakeGpu();
};

/// What all fake GPUs were asked for.
struct DeviceCounts {
  std::int64_t launches = 0;     // operators that compute, and copies on the device
  std::int64_t copies = 0;       // between the host and the device
  std::int64_t allocations = 0;  // of the device's memory
  // The host waited for a stream or the device: copies that block, and the numbers of a tensor that
  // were asked for, as by item() or by nonzero() for its size. On a GPU each is a stall.
  std::int64_t host_waits = 0;
  std::int64_t event_waits = 0;  // the host waited for an event
  // Memory that was freed while an operator of another stream might still use it: nobody had
  // recorded that stream, and neither the host nor the memory's own stream had waited for it.
  std::int64_t early_frees = 0;
};

/// Since the process began.
DeviceCounts fake_gpu_counts();

inline DeviceCounts operator-(const DeviceCounts& a, const DeviceCounts& b) {
  return {a.launches - b.launches,
          a.copies - b.copies,
          a.allocations - b.allocations,
          a.host_waits - b.host_waits,
          a.event_waits - b.event_waits,
          a.early_frees - b.early_frees};
}

/// Where a tensor lies.
struct Place {
  bool is_new = false;      // in memory that was given out while the record lives
  std::int64_t block = 0;   // new: counted by order; else a number that no other memory has
  std::int64_t offset = 0;  // bytes
  bool operator==(const Place&) const = default;
};

/// One thing that the devices were asked for.
struct Launch {
  std::string name;  // "aten::addmm" and the like, "allocate", "to the device", "to the host"
  std::vector<Place> places;  // of the tensors among its arguments
  std::string values;         // the other arguments; of a copy, the address in the host's memory
};

/// What is launched while this lives, in order; one at a time.
class LaunchRecord {
 public:
  LaunchRecord();
  LaunchRecord(const LaunchRecord&) = delete;
  LaunchRecord& operator=(const LaunchRecord&) = delete;
  ~LaunchRecord();

  /// Of operators, "aten::addmm" and the like.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::vector<Launch> launches() const;
};

}  // namespace ddp::worker
