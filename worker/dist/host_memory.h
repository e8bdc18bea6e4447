// Keeps the memory of one training step for the next, on the host.
#pragma once

#include "common/node/environment.h"

namespace ddp::worker {

/// From now on tensors of 1 MiB and more lie in blocks of a BlockCache, and malloc() keeps blocks
/// of up to 32 MiB. Without this a step on CPUs asks the kernel for most of its memory, at a
/// page fault per 4 KiB: docs/benchmarks.md, "A step of training". For the price in memory see
/// BlockCache. Call it while the program has one thread; LibTorch's allocator is replaced for all
/// code of the process. Does nothing
/// - if the user has chosen: by a variable of malloc (MALLOC_TRIM_THRESHOLD_ and its like,
///   glibc.malloc in GLIBC_TUNABLES), or by an allocator of his own;
/// - in a build with a sanitizer, which would no longer see these blocks.
void reuse_host_memory(const Environment& environment);

}  // namespace ddp::worker
