#include "worker/plan/device_choice.h"

#include <algorithm>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/parse_whole.h"
#include "common/text/units.h"

namespace ddp::worker {
namespace {

std::string count_of(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// N of "cuda:N"; no value for "cuda" and "auto".
std::optional<int> number_of(const std::string& device) {
  if (!device.starts_with("cuda:")) return {};
  if (const auto number = parse_whole<int>(device.substr(5), 0)) return number;
  throw UsageError("device: " + device + " is not cuda:N. Give cpu, cuda, cuda:0, ...");
}

/// The GPUs that this process sees, as a message shows them: by CUDA's numbers.
std::string list_visible(const VisibleGpus& visible, const GpuFacts& facts) {
  std::vector<Gpu> seen;
  for (const VisibleGpu& gpu : visible.gpus) {
    Gpu unknown;
    unknown.model = gpu.entry;
    seen.push_back(gpu.index < 0 ? unknown : facts.gpus[static_cast<std::size_t>(gpu.index)]);
  }
  std::string text = "GPUs: " + list_gpus(seen);
  if (facts.visible) text += "; CUDA_VISIBLE_DEVICES=" + *facts.visible;
  return text;
}

/// CUDA counts the fastest GPU first, unless told otherwise. If all are of one kind, that is the
/// PCI order.
bool is_order_known(const GpuFacts& facts) {
  if (facts.is_cuda_order) return true;
  for (const Gpu& gpu : facts.gpus) {
    if (gpu.model != facts.gpus.front().model) return false;
  }
  return true;
}

class Chooser {
 public:
  Chooser(const DeviceJob& job, const LocalPlace& place, const GpuFacts& facts)
      : job_(job), place_(place), facts_(facts), visible_(visible_gpus(facts.gpus, facts.visible)) {
    if (facts_.problem.empty() && !visible_.gpus.empty()) return;
    problem_ = facts_.problem;
    if (problem_.empty()) problem_ = "no GPU is visible (" + list_visible(visible_, facts_) + ")";
  }

  DeviceChoice choose() {
    if (job_.device == "cpu") return cpu();
    if (!problem_.empty()) return without_gpu();
    if (job_.backend == "shm") {
      throw UsageError(
          "backend: shm is for CPUs, but this rank has a GPU. Use device=cpu, or "
          "backend=auto.");
    }
    DeviceChoice choice;
    choice.nccl = job_.backend != "gloo";
    choice.gpu = pick(choice.nccl);
    describe(choice);
    return choice;
  }

 private:
  [[nodiscard]] DeviceChoice cpu() const {
    if (job_.backend == "nccl") {
      throw UsageError("backend: nccl needs a GPU, but the device is cpu" +
                       (problem_.empty() || job_.device == "cpu" ? "" : ": " + problem_) +
                       ". Use backend=gloo or auto.");
    }
    DeviceChoice choice;
    choice.name = "cpu";
    return choice;
  }

  [[nodiscard]] DeviceChoice without_gpu() const {
    if (job_.device != "auto") {
      throw UsageError(
          "device: " + job_.device + " cannot be used: " + problem_ +
          ". ddp-launch doctor looks further. To go without, give device=auto or cpu.");
    }
    DeviceChoice choice = cpu();
    // A node without GPUs needs no note; a node whose GPUs cannot be used does.
    if (!facts_.gpus.empty() || facts_.is_driver_broken)
      choice.notes.push_back("device: auto takes the cpu, as " + problem_);
    return choice;
  }

  [[nodiscard]] std::string visible_list() const { return list_visible(visible_, facts_); }

  [[nodiscard]] int pick(bool nccl) const {
    const int ranks = place_.local_world_size;
    const int count = static_cast<int>(visible_.gpus.size());
    if (const std::optional<int> number = number_of(job_.device)) {
      if (*number >= count) {
        throw UsageError("device: " + job_.device + " is not there. " + visible_list() + ".");
      }
      if (nccl && ranks > 1 && !sees_its_own(count)) {
        throw UsageError("device: " + job_.device + " is one GPU for " + std::to_string(ranks) +
                         " ranks of this node, and NCCL takes one rank per GPU. Use device=cuda, "
                         "or backend=gloo. " +
                         visible_list() + ".");
      }
      return *number;
    }
    if (place_.local_rank < count && (ranks <= count || sees_its_own(count)))
      return place_.local_rank;
    if (sees_its_own(count)) return 0;
    if (!nccl) return place_.local_rank % count;  // gloo lets ranks share a GPU
    throw UsageError("this node has " + count_of(static_cast<std::size_t>(ranks), "rank") +
                     " and " + count_of(visible_.gpus.size(), "visible GPU") +
                     ", and NCCL takes one rank per GPU. Start " + std::to_string(count) +
                     " per node, or use backend=gloo, or device=cpu. " + visible_list() + ".");
  }

  /// One GPU is visible, and each rank may see another one: the node has enough of them, or a
  /// platform gives each task its own. Whether they really differ is checked when all ranks are
  /// there.
  [[nodiscard]] bool sees_its_own(int count) const {
    if (count != 1) return false;
    const bool is_narrowed =
        facts_.visible && static_cast<int>(facts_.gpus.size()) >= place_.local_world_size;
    return place_.has_own_view || is_narrowed;
  }

  void describe(DeviceChoice& choice) const {
    const VisibleGpu& chosen = visible_.gpus[static_cast<std::size_t>(*choice.gpu)];
    choice.name = "cuda:" + std::to_string(*choice.gpu);
    if (chosen.index < 0 || !is_order_known(facts_)) return;
    const auto index = static_cast<std::size_t>(chosen.index);
    const Gpu& gpu = facts_.gpus[index];
    const std::string& model = gpu.model.empty() ? "nvidia" + std::to_string(gpu.minor) : gpu.model;
    choice.name += " (" + model + (gpu.pci.empty() ? "" : ", " + gpu.pci) + ")";
    choice.identity = gpu.uuid.empty() ? gpu.pci : gpu.uuid;
    check_kernels(gpu, choice);
    if (index < facts_.uses.size()) check_use(facts_.uses[index], choice);
  }

  void check_kernels(const Gpu& gpu, const DeviceChoice& choice) const {
    const std::string why = why_no_kernels(gpu.capability, facts_.cuda.of_libtorch);
    if (why.empty()) return;
    throw UsageError(choice.name + " " + why + ". Take another GPU, or device=cpu.");
  }

  [[nodiscard]] bool is_sibling(int pid) const {
    return std::ranges::find(facts_.siblings, pid) != facts_.siblings.end();
  }

  /// "is used by others (pid 41) and by other ranks of this job (pid 42)"; empty: by nobody.
  [[nodiscard]] std::string describe_owners(const GpuUse& use) const {
    std::string siblings;
    std::string others;
    for (const int pid : use.owners)
      add_word(is_sibling(pid) ? siblings : others, std::to_string(pid));
    if (!siblings.empty()) siblings = "by other ranks of this job (pid " + siblings + ")";
    if (!others.empty()) others = "by others (pid " + others + ")";
    if (siblings.empty() && others.empty()) return "";
    return "is used " + others + (others.empty() || siblings.empty() ? "" : " and ") + siblings;
  }

  void check_use(const GpuUse& use, DeviceChoice& choice) const {
    std::string owners;
    for (const int pid : use.owners)
      add_word(owners, std::to_string(pid));
    const std::string memory =
        use.free ? format_bytes(*use.free) + " of " + format_bytes(use.total) + " are free" : "";
    if (use.free && *use.free < job_.min_free) {
      throw UsageError(choice.name + ": only " + memory + ", device_min_free is " +
                       format_bytes(job_.min_free) +
                       (owners.empty() ? "" : "; pids on it: " + owners) +
                       ". Wait, take another GPU, or lower device_min_free.");
    }
    if (owners.empty()) return;
    choice.notes.push_back(choice.name + " " + describe_owners(use) +
                           (memory.empty() ? "" : ", " + memory));
  }

  const DeviceJob& job_;
  const LocalPlace& place_;
  const GpuFacts& facts_;
  VisibleGpus visible_;
  std::string problem_;  // why no GPU can be used
};

}  // namespace

DeviceChoice choose_device(const DeviceJob& job, const LocalPlace& place, const GpuFacts& facts) {
  return Chooser(job, place, facts).choose();
}

}  // namespace ddp::worker
