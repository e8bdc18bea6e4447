#include "common/node/platform_ranks.h"

#include "common/node/slurm_step.h"

namespace ddp {
namespace {

/// A platform's variable for one of torchrun's.
struct MpiName {
  const char* ours;
  const char* theirs;
  bool required;
};

constexpr MpiName kOpenMpi[] = {{"RANK", "OMPI_COMM_WORLD_RANK", true},
                                {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", true},
                                {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", true},
                                {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", false}};
constexpr MpiName kPmi[] = {{"RANK", "PMI_RANK", true},
                            {"WORLD_SIZE", "PMI_SIZE", true},
                            {"LOCAL_RANK", "MPI_LOCALRANKID", false},
                            {"LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", false}};

template <std::size_t N>
PlatformRanks of_mpi(const std::string& platform,
                     const MpiName (&names)[N],
                     const Environment& environment) {
  PlatformRanks ranks{platform, {}, {}};
  for (const MpiName& name : names) {
    if (const auto text = find_variable(environment, name.theirs)) {
      ranks.variables[name.ours] = *text;
    } else if (name.required && ranks.problem.empty()) {
      ranks.problem = std::string(name.theirs) + " is not set";
    }
  }
  return ranks;
}

PlatformRanks of_slurm(const SlurmFacts& facts) {
  const SlurmStep& step = facts.step;
  PlatformRanks ranks{"Slurm", {}, facts.problem};
  if (!facts.problem.empty()) return ranks;
  ranks.variables = {{"RANK", std::to_string(step.task)},
                     {"WORLD_SIZE", std::to_string(step.tasks)},
                     {"LOCAL_RANK", std::to_string(step.task_here)},
                     {"LOCAL_WORLD_SIZE", std::to_string(step.tasks_here)},
                     {"GROUP_RANK", std::to_string(step.node)},
                     {"GROUP_WORLD_SIZE", std::to_string(step.nodes)},
                     {"MASTER_ADDR", step.first_node},
                     {"MASTER_PORT", std::to_string(slurm_port(step))},
                     {"TORCHELASTIC_RUN_ID", slurm_run_id(step)}};
  return ranks;
}

bool has_any(const Environment& environment, const char* first, const char* second) {
  return find_variable(environment, first) || find_variable(environment, second);
}

PlatformRanks find_ranks(const Environment& environment) {
  if (has_any(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
    return of_mpi("Open MPI", kOpenMpi, environment);
  // Hydra, the mpiexec of MPICH, counts the ranks of a node; srun --mpi=pmi2 does not.
  const bool by_pmi = has_any(environment, "PMI_RANK", "PMI_SIZE");
  if (by_pmi && find_variable(environment, "MPI_LOCALNRANKS"))
    return of_mpi("PMI", kPmi, environment);
  const SlurmFacts slurm = read_slurm(environment);
  if (slurm.in_step) return of_slurm(slurm);
  if (by_pmi) return of_mpi("PMI", kPmi, environment);
  return {};
}

}  // namespace

PlatformRanks read_platform_ranks(const Environment& environment) {
  PlatformRanks ranks = find_ranks(environment);
  if (!ranks.problem.empty()) return ranks;
  const auto size = ranks.variables.find("WORLD_SIZE");
  if (size == ranks.variables.end() || size->second == "1") return {};
  return ranks;
}

}  // namespace ddp
