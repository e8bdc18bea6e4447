#include "launcher/plan/start/worker_environment.h"

#include <algorithm>

#include "common/job/job_keys.h"
#include "common/text/split.h"
#include "launcher/plan/start/substitution.h"

namespace ddp::launcher {
namespace {

/// Variables that an outer launcher may have set for its own worker and that are wrong for ours.
/// Others are overwritten.
constexpr const char* kStale[] = {
    "DDP_RUN_DIR", "DDP_PROGRESS_FD", "DDP_JOB_START", "TORCHELASTIC_TIMER_FILE"};
constexpr const char* kSecret = "DDP_TOKEN";  // between agents only

/// One GPU per worker: the parent's list cut to its entry, else the local rank itself.
std::string visible_device(const JobSpec& spec, int local_rank) {
  const auto visible = find_variable(spec.environment, visible_devices_variable(spec.environment));
  if (!visible) return std::to_string(local_rank);
  const std::vector<std::string_view> entries = split(*visible, ',');
  const auto index = std::min(static_cast<std::size_t>(local_rank), entries.size() - 1);
  std::string entry(entries[index]);
  std::erase(entry, ' ');
  return entry;
}

void add_threads(const JobSpec& spec, const Placement& placement, Environment& added) {
  if (spec.environment.contains("OMP_NUM_THREADS")) return;  // set by the user
  if (spec.takes_job_file) {
    const int ranks = placement.local_world_size * (spec.is_one_machine ? placement.nodes : 1);
    added["OMP_NUM_THREADS"] = std::to_string(threads_of_rank(spec, ranks));
  } else if (placement.local_world_size > 1) {
    added["OMP_NUM_THREADS"] = "1";  // torchrun's rule
  }
}

/// Lets LibTorch write NCCL's last operations beside the logs when a collective hangs, and not
/// under the user's home. LibTorch appends the rank.
void add_flight_recorder(const JobSpec& spec, const RoundFacts& facts, Environment& added) {
  constexpr const char* kName = "TORCH_FR_DUMP_TEMP_FILE";
  constexpr const char* kOldName = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE";
  if (facts.run_dir.empty()) return;
  for (const char* const name : {kName, kOldName}) {
    if (spec.environment.contains(name) || added.contains(name)) return;  // set by the user
  }
  const std::string round = "round-" + std::to_string(facts.round);
  added[kName] = (facts.run_dir / "logs" / round / "nccl-trace-rank-").string();
}

/// Sets the terminal's size, to which programs that write to a pipe fit bars and tables. The prefix
/// of a line, "[0:1] ", is subtracted.
void add_terminal(const JobSpec& spec,
                  const Placement& placement,
                  const RoundFacts& facts,
                  Environment& added) {
  if (placement.local_rank == facts.debug_rank) {  // it has a terminal
    if (facts.terminal && !facts.terminal->term.empty()) added["TERM"] = facts.terminal->term;
    return;
  }
  const std::string prefix =
      "[" + std::to_string(placement.node_rank) + ":" + std::to_string(placement.rank) + "] ";
  const int columns = facts.columns - static_cast<int>(prefix.size());
  if (columns <= 0 || spec.environment.contains("COLUMNS")) return;
  added.emplace("COLUMNS", std::to_string(columns));
  if (facts.rows > 0 && !spec.environment.contains("LINES"))
    added.emplace("LINES", std::to_string(facts.rows));
}

}  // namespace

WorkerIdentity identity_in_round(const Placement& placement, int round) {
  WorkerIdentity identity;
  identity.rank = placement.rank;
  identity.world_size = placement.world_size;
  identity.local_rank = placement.local_rank;
  identity.local_world_size = placement.local_world_size;
  identity.group_rank = placement.node_rank;
  identity.group_world_size = placement.nodes;
  identity.role_rank = placement.role_rank;
  identity.role_world_size = placement.role_world_size;
  identity.restart_count = round;
  identity.round = round;
  return identity;
}

Environment added_environment(const JobSpec& spec,
                              const Placement& placement,
                              const RoundFacts& facts,
                              const std::string& error_file,
                              int progress_fd) {
  WorkerIdentity identity = identity_in_round(placement, facts.round);
  if (spec.virtual_local_rank) identity.local_rank = 0;
  identity.role_name = spec.role;
  identity.master_addr = facts.master_addr;
  identity.master_port = facts.master_port;
  identity.agent_store = !spec.store_in_worker;
  identity.max_restarts = spec.max_restarts;
  identity.user_run_id = facts.user_run_id;
  identity.error_file = error_file;
  identity.run_id = facts.run_id;
  identity.run_dir = facts.run_dir;
  identity.progress_fd = progress_fd;
  Environment added = to_environment(identity);

  added["TORCHELASTIC_SIGNALS_TO_HANDLE"] = spec.stop_signal_names;
  if (!spec.takes_job_file && !spec.environment.contains("TORCH_NCCL_ASYNC_ERROR_HANDLING"))
    added["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1";
  added["DDP_AGENT_ID"] = facts.agent_id;
  added["DDP_JOB_START"] = std::to_string(facts.job_start.time_since_epoch().count());
  for (const char* const name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    if (!facts.interface.empty() && !spec.environment.contains(name)) added[name] = facts.interface;
  }
  if (spec.virtual_local_rank) {
    const std::string device = visible_device(spec, placement.local_rank);
    added["CUDA_VISIBLE_DEVICES"] = device;
    added[visible_devices_variable(spec.environment)] = device;
  }
  for (const auto& [name, value] : spec.job.text_map("launch.env"))
    added.emplace(name, value);
  // At a hang Python is asked for its stacks (run/stack_collector). It then also prints them at
  // crashes.
  if (!spec.takes_job_file && !spec.environment.contains("PYTHONFAULTHANDLER"))
    added.emplace("PYTHONFAULTHANDLER", "1");
  add_flight_recorder(spec, facts, added);
  add_terminal(spec, placement, facts, added);
  add_threads(spec, placement, added);
  return added;
}

std::string shown_value(const JobSpec& spec, const std::string& name, const std::string& value) {
  const TextMap& secrets = spec.job.text_map("launch.env");
  const auto found = secrets.find(name);
  return found != secrets.end() && found->second == value ? std::string(kMasked) : value;
}

Environment worker_environment(const JobSpec& spec, const Environment& added) {
  Environment whole = spec.environment;
  for (const char* const name : kStale)
    whole.erase(name);
  whole.erase(kSecret);
  for (const auto& [name, value] : added)
    whole.insert_or_assign(name, value);
  return whole;
}

std::vector<std::string> worker_arguments(const JobSpec& spec,
                                          const Placement& placement,
                                          bool has_debugger) {
  std::vector<std::string> arguments = spec.arguments;
  if (has_debugger) {
    const std::vector<std::string>& more = spec.debug_arguments;
    arguments.insert(arguments.end(), more.begin(), more.end());
  }
  if (spec.takes_job_file) return arguments;  // a job file's path and overrides are not templates
  if (!spec.local_rank_flag.empty()) {
    const auto entry = std::ranges::find(arguments, spec.entry);
    const int shown = spec.virtual_local_rank ? 0 : placement.local_rank;
    arguments.insert(entry + 1, spec.local_rank_flag + "=" + std::to_string(shown));
  }
  // The program's own name is not a template, nor is the interpreter before it.
  const auto entry = std::ranges::find(arguments, spec.entry);
  for (auto argument = entry + 1; argument != arguments.end(); ++argument)
    *argument = substitute(*argument, placement.local_rank);
  return arguments;
}

}  // namespace ddp::launcher
