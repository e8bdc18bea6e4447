// A device that is not the CPU, for tests on machines without a GPU. Its operations are those of
// the CPU, but its memory cannot be reached by the host: a tensor that is on the wrong device is
// LibTorch's error, as on a GPU, and a pointer into one that the host follows ends the test by
// SIGSEGV.
// What it does not show: the kernels of CUDA, streams, and what is faster there. What it is given
// it does at once; a test may have its events tell so late.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace ddp::worker {

/// Linking this file registers it with LibTorch, under the type of an accelerator that
/// no test of ours has.
at::Device second_device();

/// While one lives, nothing that the device is given from then on is done, as its events tell it.
class BusySecondDevice {
 public:
  BusySecondDevice();
  BusySecondDevice(const BusySecondDevice&) = delete;
  BusySecondDevice& operator=(const BusySecondDevice&) = delete;
  ~BusySecondDevice();
};

/// How often the host has waited for it so far: copies to the host, and the numbers of a tensor
/// that were asked for, as by item() or by nonzero() for its size. On a GPU each is a stall.
std::int64_t waits_for_second_device();

}  // namespace ddp::worker
