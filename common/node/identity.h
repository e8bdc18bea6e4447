// Who a worker is, and the only place that reads the environment (once, early, as a value).
// The launcher writes an identity with to_environment(), the worker reads it with read_identity():
// each is the other's inverse. The names are torchrun's; DDP_* are ours.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace ddp {

using Environment = std::map<std::string, std::string>;

/// A copy of this process's environment. Entries without '=' are left out; of repeated names the
/// first counts, as in getenv.
Environment read_environment();

/// Blanks `name` in the environment that /proc/PID/environ shows, so that nobody finds this process
/// by it. Trap: only what the process was started with is shown there; what setenv(3) made later is
/// not.
void hide_variable(const std::string& name);

/// The value, or nothing when the variable is missing **or empty**.
std::optional<std::string> find_variable(const Environment& environment, const std::string& name);

struct WorkerIdentity {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int group_rank = 0;        // = node rank
  int group_world_size = 1;  // = number of nodes
  int role_rank = 0;
  int role_world_size = 1;
  std::string role_name = "default";
  std::string master_addr;  // empty: alone
  int master_port = 0;
  bool agent_store = false;  // true: every rank is a store client; false: rank 0 serves
  int restart_count = 0;
  int max_restarts = 0;
  std::string user_run_id = "none";  // TORCHELASTIC_RUN_ID, what the user typed
  std::string platform;              // that gave the ranks: "Slurm"; empty: a launcher, or alone
  std::string error_file;            // absolute path, or empty
  std::string run_id;                // DDP_RUN_ID, random per job, empty under other launchers
  int round = 0;
  std::filesystem::path run_dir;  // empty: the worker chooses it
  int progress_fd = -1;           // inherited progress page, or -1

  bool operator==(const WorkerIdentity&) const = default;
};

/// Reads torchrun's variables and ours. Neither RANK nor WORLD_SIZE set: what srun or mpirun say,
/// under which MASTER_ADDR and MASTER_PORT still count; else alone, rank 0 of 1.
/// Errors: UsageError that names the variable for half a set (RANK without WORLD_SIZE, no
/// MASTER_ADDR, ...), for what is not a number and for ranks outside their world.
WorkerIdentity read_identity(const Environment& environment);

/// Who this is and how it knows: "rank 1 of 3, from Slurm", "not distributed: one process".
std::string describe(const WorkerIdentity& identity);

/// The node's host name, as reports show it.
std::string host_name();

/// The variables that tell a worker this identity; to be laid over the launcher's own environment.
Environment to_environment(const WorkerIdentity& identity);

}  // namespace ddp
