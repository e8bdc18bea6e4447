// Gradients that travel in 16 bits: half the bytes on the wire, and 8 (fp16: 11) bits of each mean.
// Worth it between nodes; on loopback it costs more than it saves.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>

namespace c10d {
class CommHookInterface;
class ProcessGroup;
}  // namespace c10d

namespace ddp::worker {

/// For Reducer::register_comm_hook: the mean over ranks of each bucket, sent as `type`.
/// Trap: with a hook the Reducer does not divide. This one does, before it rounds: a sum of fp16
/// values could overflow, the mean of values that fit cannot.
/// Source: torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py of torch 2.11.
std::unique_ptr<c10d::CommHookInterface> compress_gradients(
    at::ScalarType type, c10::intrusive_ptr<c10d::ProcessGroup> group);

}  // namespace ddp::worker
