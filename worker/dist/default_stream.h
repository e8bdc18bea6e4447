// The one stream on which Gloo is right with tensors of a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddp::worker {

/// Gloo copies a result back to a device on a stream of its own. The thread of Gloo that ends the
/// work makes its own current stream wait for that copy (ProcessGroupGloo.cpp, AsyncWork::execute),
/// which is the device's default one: another stream would read too early, and nobody says so.
/// Errors: std::logic_error where another stream of a tensor's device is current.
void require_default_stream(const std::vector<at::Tensor>& tensors);

}  // namespace ddp::worker
