#include "launcher/plan/start/gpus_of_ranks.h"

#include "common/text/join_words.h"
#include "common/text/split.h"

namespace ddp::launcher {
namespace {

/// CUDA_VISIBLE_DEVICES of the workers.
std::string visible_devices(const JobSpec& spec) {
  return find_variable(spec.environment, "CUDA_VISIBLE_DEVICES").value_or("");
}

bool asks_for_gpus(const JobSpec& spec) {
  return spec.takes_job_file && spec.job.text("device").starts_with("cuda");
}

/// How many GPUs the job needs at least. ddp-workers can share one if gloo adds gradients.
int wanted_gpus(const JobSpec& spec) {
  if (spec.virtual_local_rank && !spec.facts.devices.empty()) return spec.nproc;
  if (!asks_for_gpus(spec)) return 0;
  return spec.job.text("backend") == "gloo" ? 1 : spec.nproc;
}

}  // namespace

std::string describe_missing_gpus(const JobSpec& spec) {
  const NodeFacts& facts = spec.facts;
  const auto listed = spec.environment.find("CUDA_VISIBLE_DEVICES");
  std::string why;
  if (listed != spec.environment.end() && listed->second.empty())
    add_word(why, "CUDA_VISIBLE_DEVICES is empty, which hides all GPUs", ", and ");
  else if (!facts.devices.empty())
    add_word(why,
             "CUDA_VISIBLE_DEVICES=" + visible_devices(spec) +
                 " leaves none of this node's GPUs: " + list_gpus(facts.devices));
  if (!facts.gpu_problem.empty()) add_word(why, facts.gpu_problem, ", and ");
  if (!facts.torch_problem.empty()) add_word(why, facts.torch_problem, ", and ");
  if (why.empty()) why = "this node has no GPU device files (/dev/nvidia0, ...)";
  return "no GPU can be used on this node: " + why +
         ". ddp-launch doctor looks further. To go without, give " +
         (asks_for_gpus(spec) ? "device=auto or cpu." : "a number or cpu.");
}

void check_gpus(JobSpec& spec, std::vector<std::string>& problems) {
  const std::vector<Gpu>& devices = spec.facts.devices;
  const bool is_set = spec.environment.contains("CUDA_VISIBLE_DEVICES");
  if (!devices.empty() && !spec.facts.refused_gpu.empty()) {
    spec.warnings.push_back(
        "CUDA_VISIBLE_DEVICES=" + visible_devices(spec) + ": CUDA stops at " +
        spec.facts.refused_gpu + ", which is not a GPU of this node or is named twice, and sees " +
        std::to_string(spec.facts.gpus) + ". This node has: " + list_gpus(devices));
  }
  if (spec.facts.gpus == 0 && asks_for_gpus(spec)) {
    const JobValues::Setting& device = spec.job.setting("device");
    problems.push_back(device.origin + ": device: " + spec.job.text("device") + ": " +
                       describe_missing_gpus(spec));
    return;
  }
  if (wanted_gpus(spec) > spec.facts.gpus) {
    problems.push_back("cannot give each of " + std::to_string(spec.nproc) +
                       " workers a GPU: " + std::to_string(spec.facts.gpus) +
                       (is_set ? " visible under CUDA_VISIBLE_DEVICES=" + visible_devices(spec)
                               : std::string(" there")) +
                       ". This node has: " + list_gpus(devices) +
                       ". Start fewer workers, or use --nproc-per-node gpu.");
    return;
  }
  // The devices are not known, but the list must name one per worker.
  const std::string list = visible_devices_variable(spec.environment);
  const std::string text = find_variable(spec.environment, list).value_or("");
  const std::size_t named = split_words(text).size();
  const bool is_known = spec.environment.contains(list);
  if (!spec.virtual_local_rank || !is_known || spec.nproc <= static_cast<int>(named)) return;
  problems.push_back("--virtual-local-rank: " + std::to_string(spec.nproc) + " workers, but " +
                     list + "=" + text + " names " + std::to_string(named) +
                     ". Name one device per worker.");
}

}  // namespace ddp::launcher
