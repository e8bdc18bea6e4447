// Refuses Gloo on a CUDA stream on which it would give wrong results.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddp::worker {

/// Gloo copies a result back to the device on a stream of its own. Then its worker thread makes
/// that thread's current stream, the default one, wait for the copy (ProcessGroupGloo.cpp,
/// AsyncWork::execute). Any other stream would read the result too early, without an error. Errors:
/// std::logic_error when another stream of a tensor's device is current.
void require_default_stream(const std::vector<at::Tensor>& tensors);

}  // namespace ddp::worker
