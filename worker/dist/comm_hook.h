// Gradient compression: sends gradients in 16 bits, half the bytes. Each mean keeps 8 significant
// bits (bf16) or 11 (fp16). It pays between nodes; on loopback it costs more than it saves.
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

/// A hook for Reducer::register_comm_hook: averages each bucket over the ranks, sent as `type`.
/// Trap: with a hook the Reducer does not divide. This hook divides before it rounds: a sum of fp16
/// values could overflow, the mean of values that fit cannot.
/// Source: torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py of torch 2.11.
std::unique_ptr<c10d::CommHookInterface> compress_gradients(
    at::ScalarType type, c10::intrusive_ptr<c10d::ProcessGroup> group);

}  // namespace ddp::worker
