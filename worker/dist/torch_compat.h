// All differences between the releases of torch that ddp-worker can be built with.
#pragma once

#include <torch/version.h>

namespace ddp::worker {

/// Whether LibTorch's Gloo adds lengths that a peer sent before it checks them: then anyone who
/// reaches a rank's port can write outside its buffers. Source: pytorch/gloo pull request 509; the
/// old check is in libtorch_cpu.so of 2.11.0 and 2.13.0, the new one in that of 2.14.1.
inline constexpr bool kGlooTrustsLengths = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 14;

}  // namespace ddp::worker
