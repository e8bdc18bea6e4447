// The GPU of a test with the label gpu, chosen as ddp-worker chooses it. Suites of such tests are
// called Gpu...
#pragma once

#include <string>

#include "worker/dist/device.h"

namespace ddp::worker {

/// `backend` is nccl or gloo. Errors: UsageError when there is none that can be used.
inline Device gpu_of_test(const std::string& backend) {
  DeviceJob job;
  job.device = "cuda";
  job.backend = backend;
  return open_device(job, WorkerIdentity{}, read_environment());
}

}  // namespace ddp::worker
