// Brings batches to a device, on a stream of its own beside the one that computes.
// Promises: the host does not wait; the computing stream waits for the copy alone.
// Traps: LibTorch gives memory of the side stream out again in the order of that stream, so it must
// be kept for the computing stream (record_stream). The host's memory is LibTorch's pinned memory,
// which LibTorch keeps until the copy is done, no matter who releases it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>

#include "worker/data/loading/batch.h"

namespace ddp::worker {

/// Returns a batch that was sent; called once, by the thread that computes with it.
using Arrival = std::function<Batch()>;
/// Starts to bring a batch to the device that computes with it. Any thread may call it.
using Send = std::function<Arrival(const Batch&)>;

class Upload {
 public:
  /// Takes one of LibTorch's streams. Errors: c10::Error for a device without streams.
  explicit Upload(at::Device device);

  /// Starts the copy. The thread that takes the batch makes its stream wait for the copy.
  [[nodiscard]] Arrival send(const Batch& batch) const;

 private:
  c10::Stream side_;
};

/// The `send` of a loader; null for a CPU, where batches are there already. Errors: as Upload.
Send send_to(at::Device device);

}  // namespace ddp::worker
