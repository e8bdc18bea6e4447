// Copies batches to a device on a stream of its own, while another stream computes.
// Promises: the host does not wait; the computing stream waits only for the copy.
// Traps: LibTorch reuses memory in the order of the stream that allocated it, so memory of the side
// stream must be marked as used by the computing stream (record_stream). The host's memory is
// LibTorch's pinned memory, which LibTorch keeps until the copy is done, even after its release.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>

#include "worker/data/loading/batch.h"

namespace ddp::worker {

/// Returns a batch that was sent. The thread that computes with it calls this once.
using FinishCopy = std::function<Batch()>;
/// Starts to copy a batch to the device. Any thread may call it.
using StartCopy = std::function<FinishCopy(const Batch&)>;

class Upload {
 public:
  /// Takes one of LibTorch's streams. Errors: c10::Error for a device without streams.
  explicit Upload(at::Device device);

  /// Starts the copy. The thread that calls the FinishCopy makes its current stream wait for the
  /// copy.
  [[nodiscard]] FinishCopy send(const Batch& batch) const;

 private:
  c10::Stream side_;
};

/// LoaderOptions::send for a device; null for a CPU, which needs no copy. Errors: as Upload.
StartCopy send_to(at::Device device);

}  // namespace ddp::worker
