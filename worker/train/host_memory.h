// Keeps the memory of one training step for the next, on the host.
#pragma once

namespace ddp::worker {

/// From now on tensors of 1 MiB and more lie in blocks of a BlockCache, and malloc() gives nothing
/// back to the kernel. Without this a step's activations cost a page fault per 4 KiB each time: a
/// fifth of a step of the convnet, a twentieth of one of ResNet-18, a third of one of yolov8n with
/// images of 640 pixels. Does nothing if the user has set a variable of malloc
/// (MALLOC_TRIM_THRESHOLD_ and its like, or glibc.malloc in GLIBC_TUNABLES). Call it before other
/// threads are there.
void reuse_host_memory();

}  // namespace ddp::worker
