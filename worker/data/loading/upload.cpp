#include "worker/data/loading/upload.h"

#include <ATen/ops/record_stream.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>
#include <utility>

namespace ddp::worker {
namespace {

c10::impl::VirtualGuardImpl streams_of(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type());
}

/// Prevents reuse of the batch's memory until the work queued on `stream` so far is done.
void keep_for(const Batch& batch, const c10::Stream& stream) {
  const auto keep = [&stream](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.device() == stream.device()) tensor.record_stream(stream);
  };
  keep(batch.input);
  for (const Target& target : batch.targets) {
    keep(target.values);
    keep(target.rows);
  }
}

}  // namespace

Upload::Upload(at::Device device) : side_(streams_of(device).getStreamFromGlobalPool(device)) {}

FinishCopy Upload::send(const Batch& batch) const {
  const c10::StreamGuard guard(side_);
  Batch there = batch.to(side_.device());
  // Shared, because std::function copies the lambda.
  const auto is_there = std::make_shared<c10::Event>(side_.device_type());
  is_there->record(side_);
  return [there = std::move(there), is_there, device = side_.device()] {
    const c10::Stream computing = streams_of(device).getStream(device);
    is_there->block(computing);
    keep_for(there, computing);
    return there;
  };
}

StartCopy send_to(at::Device device) {
  if (device.is_cpu()) return {};
  return [upload = Upload(device)](const Batch& batch) { return upload.send(batch); };
}

}  // namespace ddp::worker
