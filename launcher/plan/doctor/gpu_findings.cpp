#include "launcher/plan/doctor/gpu_findings.h"

#include <algorithm>
#include <cstddef>

#include "common/text/join_words.h"
#include "common/text/units.h"

namespace ddp::launcher {
namespace {

constexpr const char* kHidden = ". CUDA_VISIBLE_DEVICES hides it from jobs";

bool is_same(const Gpu& one, const Gpu& other) {
  return one.pci.empty() ? !one.uuid.empty() && one.uuid == other.uuid : one.pci == other.pci;
}

/// NVML's numbers need not be CUDA's, so by UUID.
std::string leave_out(const Gpu& gpu) {
  return "Leave " + (gpu.uuid.empty() ? std::string("it") : gpu.uuid) +
         " out: list the UUIDs of the others (nvidia-smi -L) in CUDA_VISIBLE_DEVICES";
}

class Checker {
 public:
  explicit Checker(const GpuHealth& health) : health_(health), driver_(health.driver) {}

  GpuFindings run() {
    if (check_driver()) {
      check_module();
      check_kernels();
      check_peers();
      check_memory();
    }
    return std::move(findings_);
  }

 private:
  void problem(const std::string& text) { findings_.problems.push_back(text + "."); }
  void note(const std::string& text) { findings_.notes.push_back(text + "."); }

  /// Whether it is there and lets GPUs be used.
  bool check_driver() {
    if (!driver_.why_no_answer.empty()) {
      problem(driver_.why_no_answer);
      return false;
    }
    if (!driver_.cuda) return false;
    const CudaDriver& cuda = *driver_.cuda;
    if (!cuda.is_there) {
      if (health_.devices.empty()) return false;  // as in a container without GPUs
      problem(
          "the NVIDIA driver's library libcuda.so.1 is not found. Install the driver's libraries "
          "of the version that the kernel has; in a container, use the "
          "nvidia-container-toolkit");
      return false;
    }
    const std::string why = why_unusable(cuda);
    if (!why.empty()) {
      // A machine without GPUs may have the driver's library.
      const bool is_problem = cuda.is_broken() || !health_.devices.empty();
      (is_problem ? findings_.problems : findings_.notes).push_back(why + ".");
      return false;
    }
    const std::string version =
        health_.files_driver.empty() ? driver_.version() : health_.files_driver;
    const std::string old = why_too_old({version, cuda.cuda, health_.module.cuda});
    if (!old.empty()) problem(old);
    return true;
  }

  void check_module() {
    const CudaModuleHealth& module = health_.module;
    if (!module.is_wanted) return;
    if (!module.is_built) {
      note(
          "ddp-worker has no module for GPUs (libddp-worker-cuda.so) and trains on the CPU. Build "
          "it: DDP_CUDA=ON ./make.sh build");
    } else if (!module.error.empty()) {
      problem(
          "ddp-worker's module for GPUs cannot be used: " + module.error +
          ". Install the wheels that torch asks for (nvidia-*) where they were when it was built, "
          "or build it again");
    }
  }

  void check_kernels() {
    const std::vector<Gpu>& gpus = driver_.gpus();
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const std::string why = why_no_kernels(gpus[i].capability, health_.module.cuda);
      if (why.empty()) continue;
      const std::string text = name_of(i) + " " + why;
      if (is_hidden(gpus[i])) {
        note(text + kHidden);
      } else {
        problem(text + ". " + leave_out(gpus[i]));
      }
    }
  }

  void check_peers() {
    const CudaDriver& cuda = *driver_.cuda;
    if (cuda.without_peer_access.empty()) return;
    const std::size_t pairs = cuda.gpus.size() * (cuda.gpus.size() - 1) / 2;
    const auto address = [&](int index) {
      return cuda.gpus.at(static_cast<std::size_t>(index)).pci;
    };
    const auto [one, other] = cuda.without_peer_access.front();
    std::string which = "its GPUs";
    if (cuda.without_peer_access.size() < pairs)
      which = std::to_string(cuda.without_peer_access.size()) + " of " + std::to_string(pairs) +
              " pairs of its GPUs (" + address(one) + " and " + address(other) + " first)";
    note(which +
         " cannot access each other's memory: NCCL copies through the host's, which is "
         "slower. Many GeForce cards cannot; else see nvidia-smi topo -p2p r, and whether an IOMMU "
         "or PCI ACS forbids it");
  }

  void check_memory() {
    const NvmlGpus& nvml = driver_.nvml;
    if (nvml.gpus.empty())
      note(
          "libnvidia-ml.so.1 is missing or shows no GPU: free memory and other processes are not "
          "known");
    for (std::size_t i = 0; i < nvml.gpus.size(); ++i) {
      const GpuUse& use = nvml.uses.at(i);
      std::string text = name_of(i) + ": ";
      const bool is_short = use.free && *use.free < health_.min_free;
      const bool is_used = use.free && *use.free < use.total / 2;
      if (!is_short && !is_used && use.owners.empty()) continue;
      if (use.free)
        text += (is_used || is_short ? "only " : "") + format_bytes(*use.free) + " of " +
                format_bytes(use.total) + " are free";
      if (!use.owners.empty()) {
        if (use.free) text += ", ";
        text += "used by pid " +
                join_words(use.owners, ", ", [](int pid) { return std::to_string(pid); });
      }
      if (is_short) text += ", device_min_free is " + format_bytes(health_.min_free);
      if (is_hidden(nvml.gpus[i])) {
        note(text + kHidden);
        continue;
      }
      text += ". End what holds it (nvidia-smi shows it). Or: " + leave_out(nvml.gpus[i]);
      (is_short ? findings_.problems : findings_.notes).push_back(text + ".");
    }
  }

  /// Whether a job does not see it. Its place is that in CUDA's own list, which the variable counts
  /// by. An entry that cannot be placed (MIG) may be a part of any GPU.
  [[nodiscard]] bool is_hidden(const Gpu& gpu) const {
    const std::vector<Gpu>& all = driver_.cuda->gpus;
    const auto found = std::ranges::find_if(all, [&](const Gpu& its) { return is_same(gpu, its); });
    if (found == all.end()) return false;
    return std::ranges::none_of(visible_gpus(all, health_.visible).gpus, [&](const auto& seen) {
      return seen.index < 0 || seen.index == found - all.begin();
    });
  }

  /// "GPU 1 (NVIDIA H200, 0000:dc:00.0)"
  [[nodiscard]] std::string name_of(std::size_t index) const {
    const Gpu& gpu = driver_.gpus()[index];
    std::string details = gpu.model;
    if (!gpu.pci.empty()) add_word(details, gpu.pci);
    return "GPU " + std::to_string(index) + (details.empty() ? "" : " (" + details + ")");
  }

  const GpuHealth& health_;
  const DriverAnswer& driver_;
  GpuFindings findings_;
};

}  // namespace

GpuFindings check_gpus(const GpuHealth& health) {
  return Checker(health).run();
}

}  // namespace ddp::launcher
