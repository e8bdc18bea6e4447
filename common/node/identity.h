// A worker's identity. The launcher writes it with to_environment(); the worker reads it with
// read_identity(), the inverse. The names are torchrun's; DDP_* are ours.
#pragma once

#include <filesystem>
#include <string>

#include "common/node/environment.h"

namespace ddp {

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
  std::string user_run_id = "none";  // TORCHELASTIC_RUN_ID, given by the user
  std::string platform;              // source of the ranks: "Slurm"; empty: launcher, or alone
  std::string error_file;            // absolute path, or empty
  std::string run_id;                // DDP_RUN_ID, random per job, empty under other launchers
  int round = 0;
  std::filesystem::path run_dir;  // empty: the worker chooses it
  int progress_fd = -1;           // inherited progress page, or -1

  bool operator==(const WorkerIdentity&) const = default;
};

/// Reads torchrun's variables and ours. If neither RANK nor WORLD_SIZE is set: the ranks of srun or
/// mpirun, with MASTER_ADDR and MASTER_PORT if set; else alone, rank 0 of 1.
/// Errors: UsageError that names the variable for an incomplete set (RANK without WORLD_SIZE, no
/// MASTER_ADDR, ...), for a text that is not a number and for ranks outside their world.
WorkerIdentity read_identity(const Environment& environment);

/// The identity and its source: "rank 1 of 3, from Slurm", "not distributed: one process".
std::string describe(const WorkerIdentity& identity);

/// The node's host name, as reports show it.
std::string host_name();

/// The variables that pass a worker this identity, to be set over the launcher's own environment.
Environment to_environment(const WorkerIdentity& identity);

}  // namespace ddp
