// The memory of fake GPUs, and the host's memory that their copies begin and end in.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/support/fake_gpu.h"

#include "tests/support/fake_gpu_streams.h"

namespace ddp::worker::late {

/// The same pages twice: where tensors say that they lie nobody can read or write.
class Block {
 public:
  /// For the work of `stream`.
  Block(std::size_t size, const c10::Stream& stream);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  [[nodiscard]] std::int64_t id() const { return id_; }  // of no other block of this process
  [[nodiscard]] void* closed() const { return closed_; }
  [[nodiscard]] void* open() const { return open_; }
  [[nodiscard]] const c10::Stream& stream() const { return stream_; }

  void poison();

  /// LibTorch was told that `stream` uses it: it is given out again after what that stream was
  /// asked for before it was freed.
  void record(const c10::Stream& stream);
  [[nodiscard]] std::vector<c10::Stream> recorded();

  /// An operator on `stream` reads or writes it.
  void note_operator(const c10::Stream& stream);
  /// Whether it may be given out again in the order of its stream while an operator of another one
  /// is not done with it.
  [[nodiscard]] bool is_freed_early();

 private:
  static inline std::atomic<std::int64_t> next_id{0};

  const std::int64_t id_ = next_id++;
  std::size_t size_;
  c10::Stream stream_;
  void* closed_ = nullptr;
  void* open_ = nullptr;
  std::mutex mutex_;
  std::map<c10::StreamId, c10::Stream> recorded_;  // others that LibTorch was told of
  std::map<c10::StreamId, LateEvent> operators_;   // the last of each other stream
};

using BlockOwner = std::shared_ptr<Block>;

BlockOwner block_of(const at::Tensor& tensor);

/// A tensor of the CPU on the memory of a fake GPU's, which outlives it.
at::Tensor host_view(const at::Tensor& tensor);

class LateAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t size) override;
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t size) const override;
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& memory, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override {
    return {kFakeGpuFreeBytes, kFakeGpuFreeBytes};
  }
};

LateAllocator& allocator();

/// See FullFakeGpu.
inline std::atomic<bool> is_full{false};

/// Memory of the host that copies may begin in and end in later.
class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override;
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t size) const override;
  [[nodiscard]] bool has(const void* data);

 private:
  static void give_back(void* data);

  std::mutex mutex_;
  std::map<const std::byte*, std::size_t> sizes_;
};

PinnedMemory& pinned_memory();

}  // namespace ddp::worker::late
