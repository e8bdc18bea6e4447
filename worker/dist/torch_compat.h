// What differs between the releases of torch that ddp-worker is built with: all of it is here.
#pragma once

#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <utility>

namespace ddp::worker {

/// Holds a node of autograd's graph: a std::shared_ptr in torch 2.11, a c10::intrusive_ptr in 2.15.
using GraphNode =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

/// Whether LibTorch's Gloo adds lengths of a peer before it checks them, so that who reaches a
/// rank's port can write outside its buffers. Source: pytorch/gloo pull request 509; the old check
/// is in libtorch_cpu.so of 2.11.0 and 2.13.0, the new one in that of 2.14.1.
inline constexpr bool kGlooTrustsLengths = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 14;

}  // namespace ddp::worker
