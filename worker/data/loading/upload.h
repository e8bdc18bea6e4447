// Batches on their way to a device, on a stream of its own beside the one that computes.
// Promise: the host waits for nothing; the computing stream waits for the copy alone.
// Traps: memory of the side stream, which LibTorch gives out again in the order of that stream,
// must be kept for the computing one (record_stream); the host's memory is LibTorch's pinned one,
// which it keeps until the copy is done, no matter who lets go of it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>

#include "worker/data/loading/batch.h"

namespace ddp::worker {

/// Gives a batch that was sent; called once, by the thread that computes with it.
using Arrival = std::function<Batch()>;
/// Begins to bring a batch to where it is computed with. Any thread.
using Send = std::function<Arrival(const Batch&)>;

class Upload {
 public:
  /// Takes one of LibTorch's streams. Errors: c10::Error for a device without streams.
  explicit Upload(at::Device device);

  /// The copy begins; who takes the batch makes the stream of its thread wait for it.
  [[nodiscard]] Arrival send(const Batch& batch) const;

 private:
  c10::Stream side_;
};

/// For a loader; null for a CPU, whose batches are there already. Errors: as Upload.
Send send_to(at::Device device);

}  // namespace ddp::worker
