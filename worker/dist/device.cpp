#include "worker/dist/device.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>

#include "common/error.h"
#include "common/node/driver_query.h"
#include "common/node/gpu_module_path.h"
#include "common/node/proc_gpus.h"
#include "worker/dist/cuda_module.h"
#include "worker/dist/nccl_settings.h"
#include "worker/dist/peer_call.h"
#include "worker/dist/process_files.h"
#include "worker/plan/device_choice.h"

namespace ddp::worker {
namespace {

/// The pids in `uses` that belong to this job. A rank that is alone on its node has none.
std::vector<int> find_siblings(const std::vector<GpuUse>& uses, const WorkerIdentity& self) {
  std::vector<int> siblings;
  if (self.local_world_size == 1) return siblings;
  for (const GpuUse& use : uses) {
    for (const int pid : use.owners) {
      if (is_of_same_job(pid, self.run_id)) siblings.push_back(pid);
    }
  }
  return siblings;
}

GpuFacts find_facts(const WorkerIdentity& self, const Environment& environment) {
  GpuFacts facts;
  const std::string version = find_gpu_driver();
  DriverAnswer answer;
  try {
    // If the driver has files, they say enough, and CUDA need not be started in the probe, too.
    answer = ask_driver(version.empty() ? CudaStart::where_nvml_shows_no_gpu : CudaStart::never);
  } catch (const SystemError& error) {
    facts.problem = std::string("the NVIDIA driver cannot be asked: ") + error.what();
    facts.is_driver_broken = true;
    return facts;
  }
  facts.gpus = answer.gpus();
  facts.uses = answer.nvml.uses;
  facts.siblings = find_siblings(facts.uses, self);
  facts.cuda.driver = version.empty() ? answer.version() : version;
  facts.cuda.of_driver =
      answer.nvml.cuda > 0 || !answer.cuda ? answer.nvml.cuda : answer.cuda->cuda;
  // An empty value is not the same as no value: it hides all GPUs.
  const auto visible = environment.find("CUDA_VISIBLE_DEVICES");
  if (visible != environment.end()) facts.visible = visible->second;
  const bool is_cuda_list = answer.nvml.gpus.empty() && answer.cuda;
  facts.is_cuda_order =
      is_cuda_list || find_variable(environment, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID";
  if (!facts.gpus.empty()) return facts;
  if (!version.empty()) {
    facts.gpus = find_gpus();
    return facts;
  }
  facts.problem = answer.problem();
  facts.is_driver_broken = answer.is_broken();
  return facts;
}

/// Makes the GPU current, before anything is allocated. Errors: UsageError.
void select(const at::Device& device) {
  try {
    const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
    const int count = cuda.deviceCount();
    if (device.index() >= count) {
      throw UsageError("device: " + device.str() + " is not there: CUDA sees " +
                       std::to_string(count) + ". Compare with nvidia-smi, or use device=cpu.");
    }
    cuda.setDevice(device);
  } catch (const c10::Error& error) {
    throw UsageError("device: " + device.str() + " cannot be used: " + message_of(error) +
                     ". Is the driver new enough? Use device=cpu to go without it.");
  }
}

}  // namespace

Device open_device(const DeviceJob& job,
                   const WorkerIdentity& self,
                   const Environment& environment) {
  GpuFacts facts;
  Device chosen;
  if (job.device != "cpu") {
    facts = find_facts(self, environment);
    try {
      if (facts.problem.empty() && !facts.gpus.empty()) {
        chosen.cuda = &load_cuda_module(find_cuda_module());
        facts.cuda.of_libtorch = chosen.cuda->cuda_version();
        facts.problem = why_too_old(facts.cuda);
      }
    } catch (const UsageError& error) {
      facts.problem = error.what();
    }
  }
  const LocalPlace place{self.local_rank, self.local_world_size, !self.platform.empty()};
  const DeviceChoice choice = choose_device(job, place, facts);
  chosen.nccl = choice.nccl;
  if (!choice.gpu && job.backend != "gloo") {
    chosen.shared_memory =
        job.backend == "shm" ? SharedMemory::required : SharedMemory::if_possible;
  }
  if (chosen.nccl) set_nccl_variables();
  chosen.name = choice.name;
  chosen.identity = choice.identity;
  chosen.notes = choice.notes;
  if (choice.gpu) {
    chosen.device = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(*choice.gpu));
    select(chosen.device);
  }
  return chosen;
}

std::string nccl_gpu_id(const Device& device, const Environment& environment) {
  if (device.identity.empty()) return "";
  // NCCL identifies nodes by this variable if a user has set it.
  const std::string node = find_variable(environment, "NCCL_HOSTID").value_or(host_name());
  return device.identity + " of " + node;
}

std::int64_t held_bytes(const at::Device& device) {
  if (!device.is_cuda()) return 0;
  const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return c10::getDeviceAllocator(device.type())
      ->getDeviceStats(device.index())
      .reserved_bytes[all]
      .current;
}

std::int64_t free_bytes(const at::Device& device) {
  const auto [free, all] = c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index());
  return static_cast<std::int64_t>(free);
}

void set_math(const MathJob& math) {
  at::Context& context = at::globalContext();
  // Trap: LibTorch has an older and a newer API for TF32, and throws if both are used. This is the
  // older.
  context.setAllowTF32CuDNN(math.tf32);
  if (math.tf32) context.setAllowTF32CuBLAS(true);
  if (math.matmul_precision != "highest") context.setFloat32MatmulPrecision(math.matmul_precision);
  context.setBenchmarkCuDNN(math.cudnn_benchmark);
  if (!math.deterministic) return;
  context.setDeterministicAlgorithms(true, false);
  // Without this variable LibTorch refuses cuBLAS as not deterministic. The user's own value
  // stands.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace ddp::worker
