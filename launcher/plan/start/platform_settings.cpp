#include "launcher/plan/start/platform_settings.h"

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/error.h"
#include "common/node/slurm_step.h"
#include "common/text/parse_whole.h"

namespace ddp::launcher {
namespace {

/// A value, and the variable that has it.
template <typename Value>
struct FromVariable {
  Value value;
  std::string variable;
};

/// What a platform's variables say about the job.
struct PlatformFacts {
  std::string platform;
  FromVariable<int> nodes{1, ""};
  FromVariable<int> node{0, ""};
  std::optional<FromVariable<std::string>> address = {};
  std::optional<FromVariable<int>> port = {};
  std::optional<FromVariable<std::string>> run_id = {};
  std::optional<FromVariable<int>> workers = {};
  std::string address_hint = {};  // where the user finds the address
};

std::optional<int> read_count(const Environment& environment, const std::string& name) {
  return parse_whole<int>(find_variable(environment, name).value_or(""), 0);
}

bool is_open(const JobValues& job, std::string_view path) {
  return job.setting(path).origin == "default";
}

/// The largest number of nodes that the job allows; 0: not a number.
int most_nodes(const JobValues& job) {
  const std::string_view text = job.text("launch.nnodes");
  return parse_whole<int>(text.substr(text.rfind(':') + 1), 0).value_or(0);
}

class Detector {
 public:
  Detector(const Environment& environment, const JobValues& job)
      : environment_(environment), job_(job) {}

  PlatformSettings run() {
    if (!job_.flag("launch.auto_env") || job_.flag("launch.standalone")) return {};
    const std::optional<PlatformFacts> facts = find_facts();
    if (facts) take(*facts);
    return std::move(detected_);
  }

 private:
  void note(const std::string& line) { detected_.notes.push_back(line); }

  /// mpirun starts its helpers by srun, so its variables come before Slurm's.
  std::optional<PlatformFacts> find_facts() {
    if (find_variable(environment_, "OMPI_COMM_WORLD_SIZE")) {
      return of_mpi(
          "Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
    }
    if (find_variable(environment_, "PMI_SIZE") && find_variable(environment_, "MPI_LOCALNRANKS"))
      return of_mpi("mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS");
    const SlurmFacts slurm = read_slurm(environment_);
    if (slurm.in_step || slurm.job_nodes > 1) return of_slurm(slurm);
    if (find_variable(environment_, "JOB_COMPLETION_INDEX")) return of_kubernetes();
    return {};
  }

  /// mpirun --map-by ppr:1:node, mpiexec -ppn 1.
  std::optional<PlatformFacts> of_mpi(const std::string& platform,
                                      const std::string& size_name,
                                      const std::string& rank_name,
                                      const std::string& local_name) {
    const std::optional<int> size = read_count(environment_, size_name);
    const std::optional<int> rank = read_count(environment_, rank_name);
    const std::optional<int> here = read_count(environment_, local_name);
    if (!size || !rank || !here || *rank >= *size) {
      note(platform + ": " + size_name + ", " + rank_name + " and " + local_name +
           " do not fit each other, so nothing is taken from them.");
      return {};
    }
    if (*here != 1) {
      note_several(platform, *here, "mpirun --map-by ppr:1:node, or mpiexec -ppn 1");
      return {};
    }
    return PlatformFacts{.platform = platform,
                         .nodes = {*size, size_name},
                         .node = {*rank, rank_name},
                         .address_hint = "the name of the node of rank 0"};
  }

  std::optional<PlatformFacts> of_slurm(const SlurmFacts& slurm) {
    if (!slurm.in_step) {
      if (is_open(job_, "launch.nnodes")) {
        note("Slurm gave this job " + std::to_string(slurm.job_nodes) +
             " nodes, but ddp-launch was not started by srun: it runs on this node alone. Type "
             "srun --ntasks-per-node=1 ddp-launch ..., or --nnodes 1 to mean it.");
      }
      return {};
    }
    const SlurmStep& step = slurm.step;
    if (!slurm.problem.empty()) {
      note("Slurm: " + slurm.problem + ", so nothing is taken from its variables.");
      return {};
    }
    if (step.tasks != step.nodes || step.tasks_here != 1) {
      note_several("Slurm", step.tasks_here, "srun --ntasks-per-node=1");
      return {};
    }
    PlatformFacts facts{.platform = "Slurm",
                        .nodes = {step.nodes, "SLURM_STEP_NUM_NODES"},
                        .node = {step.node, "SLURM_NODEID"}};
    // A step of one node needs no meeting point: it takes a free port and a run id of its own.
    if (step.nodes > 1) {
      facts.address = {step.first_node, "SLURM_STEP_NODELIST"};
      facts.port = {slurm_port(step), "SLURM_STEP_ID"};
      facts.run_id = {slurm_run_id(step), "SLURM_STEP_ID"};
    }
    // GPUs that are allocated but not used do not give the number of workers.
    if (step.gpus > 0 && job_.text("device") != "cpu") {
      const bool counted = find_variable(environment_, "SLURM_GPUS_ON_NODE").has_value();
      facts.workers = {step.gpus, counted ? "SLURM_GPUS_ON_NODE" : "SLURM_GPUS_PER_NODE"};
    }
    return facts;
  }

  /// A pod of an Indexed Job has a number, but no variable has the number of pods.
  std::optional<PlatformFacts> of_kubernetes() {
    const std::string variable = "JOB_COMPLETION_INDEX";
    const std::string index = *find_variable(environment_, variable);
    if (is_open(job_, "launch.nnodes")) {
      note("Kubernetes: this is pod " + index + " of an Indexed Job (" + variable +
           "), but --nnodes is missing: ddp-launch runs in this pod alone. For one job over the "
           "pods give --nnodes and --master-addr; --nnodes 1 to mean it.");
      return {};
    }
    const std::optional<int> node = read_count(environment_, variable);
    // --nnodes 1: each pod runs a job of its own.
    if (most_nodes(job_) <= 1) return {};
    if (!node || *node >= most_nodes(job_)) {
      note("Kubernetes: " + variable + "=" + index + " is not a rank of " +
           job_.text("launch.nnodes") + " nodes, so it is not used.");
      return {};
    }
    return PlatformFacts{
        .platform = "Kubernetes",
        .nodes = {most_nodes(job_), ""},
        .node = {*node, variable},
        .address_hint = "the name of pod 0 behind its headless Service, JOB-0.SERVICE"};
  }

  void note_several(const std::string& platform, int here, const std::string& command) {
    if (!is_open(job_, "launch.nnodes") && most_nodes(job_) == 1) return;  // separate jobs
    const std::string started = platform + " started " + std::to_string(here) +
                                " processes on this node. An agent is the only one of its node, "
                                "and starts the workers itself: ";
    // Each process would run the whole job.
    if (here > 1 && is_open(job_, "launch.nnodes")) {
      throw UsageError(started + "type " + command +
                       ", or --nnodes 1 for a job of its own in each.");
    }
    note(started + command + ". Nothing is taken from " + platform + ".");
  }

  void take(const PlatformFacts& facts) {
    // Take all or nothing: a node rank means nothing with another number of nodes.
    if (!is_open(job_, "launch.nnodes") && most_nodes(job_) != facts.nodes.value) {
      note(facts.platform + " says " + std::to_string(facts.nodes.value) + " nodes, " +
           job_.setting("launch.nnodes").origin + " says " + job_.text("launch.nnodes") +
           ": nothing is taken from " + facts.platform + ".");
      return;
    }
    std::string found;
    const std::string last = std::to_string(facts.nodes.value);
    if (facts.nodes.value > 1) {
      set("launch.nnodes", std::to_string(facts.nodes.value), facts.nodes.variable);
      const bool is_new =
          set("launch.node_rank", static_cast<std::int64_t>(facts.node.value), facts.node.variable);
      if (is_new) found += ", node " + std::to_string(facts.node.value) + " of " + last;
      found += take_meeting(facts);
    }
    if (facts.workers && set("launch.nproc_per_node",
                             static_cast<std::int64_t>(facts.workers->value),
                             facts.workers->variable)) {
      found += ", " + std::to_string(facts.workers->value) +
               (facts.workers->value == 1 ? " worker" : " workers") + ", one per GPU";
    }
    if (found.empty()) return;
    note("from " + facts.platform + ":" + found.substr(1) + "; --no-auto-env turns this off");
  }

  /// Takes the address where the nodes meet, and the run id.
  std::string take_meeting(const PlatformFacts& facts) {
    std::string found;
    const bool is_free =
        is_open(job_, "launch.master_addr") && is_open(job_, "launch.rdzv_endpoint");
    if (is_free && !facts.address) {
      note(facts.platform + " does not tell where node 0 is. Give --master-addr, " +
           facts.address_hint + ".");
    }
    if (is_free && facts.address) {
      set("launch.master_addr", facts.address->value, facts.address->variable);
      found += ", master " + facts.address->value;
      const auto port = static_cast<std::int64_t>(facts.port->value);
      if (set("launch.master_port", port, facts.port->variable))
        found += ":" + std::to_string(port);
    }
    if (facts.run_id && set("launch.rdzv_id", facts.run_id->value, facts.run_id->variable))
      found += ", run id " + facts.run_id->value;
    return found;
  }

  /// False: the user has set the key, or the platform has no value.
  bool set(std::string_view path, JobValue value, const std::string& variable) {
    if (variable.empty() || !is_open(job_, path)) return false;
    detected_.settings.push_back({std::string(path), {std::move(value), variable}});
    return true;
  }

  const Environment& environment_;
  const JobValues& job_;
  PlatformSettings detected_;
};

}  // namespace

PlatformSettings read_platform_settings(const Environment& environment, const JobValues& job) {
  return Detector(environment, job).run();
}

void apply(const PlatformSettings& detected, JobValues& job) {
  for (const PlatformSettings::Setting& entry : detected.settings)
    job.set(entry.path, entry.setting);
}

}  // namespace ddp::launcher
