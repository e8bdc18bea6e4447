// Stands for the module for GPUs: a group believes that its device runs NCCL. The test says what
// the device has done.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <string>

#include "worker/dist/cuda_module.h"
#include "worker/dist/device.h"

namespace ddp::worker {

/// Stands where NCCL's would; nobody calls a collective of it.
class FakeNccl : public c10d::Backend {
 public:
  using Backend::Backend;
  void setSequenceNumberForGroup() override {}
};

class FakeCudaModule : public CudaModule {
 public:
  [[nodiscard]] std::string nccl_version() const override { return "0.0.0"; }
  [[nodiscard]] int cuda_version() const override { return 0; }
  [[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_nccl(
      const NcclRequest& request) const override {
    return c10::make_intrusive<FakeNccl>(request.rank, request.world_size);
  }
  [[nodiscard]] NcclSettings settings_of(const c10d::Backend& /*nccl*/) const override {
    return {};
  }
  void forbid_host_sync(bool /*is_forbidden*/) const override {}
};

/// Its tensors are on the CPU.
inline Device device_with_fake_nccl() {
  static const FakeCudaModule cuda;
  Device device;
  device.nccl = true;
  device.cuda = &cuda;
  return device;
}

}  // namespace ddp::worker
