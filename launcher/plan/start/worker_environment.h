// The environment and the arguments of one worker: torchrun's variables in torchrun's text form,
// ours on top. Pure.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/node/identity.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/node_zero_terminal.h"
#include "launcher/plan/start/placement.h"

namespace ddp::launcher {

/// What the environment needs beside the JobSpec. The names, job_start and log_dir stay for the
/// job, the rest is of a round.
struct RoundFacts {
  std::string run_id;                                 // DDP_RUN_ID, of the job
  std::string agent_id;                               // DDP_AGENT_ID: marks processes of our agent
  std::string user_run_id;                            // TORCHELASTIC_RUN_ID
  std::chrono::steady_clock::time_point job_start{};  // DDP_JOB_START: nanoseconds of that clock
  int round = 0;
  std::string master_addr;
  int master_port = 0;
  std::string interface;          // to the other nodes; empty: the libraries choose
  std::filesystem::path run_dir;  // empty: none
  std::filesystem::path log_dir;  // in torchrun's layout, absolute; empty: none
  // Size of the terminal that shows the workers' lines when the job begins; 0: none.
  int columns = 0;
  int rows = 0;
  bool has_debugger = false;                 // a worker of some node (--debug)
  std::optional<int> debug_rank;             // the local rank of one that is here
  std::optional<NodeZeroTerminal> terminal;  // which it has; nothing: it has ours
};

/// The parts of a worker's identity that placement and round give; the rest is empty.
WorkerIdentity identity_in_round(const Placement& placement, int round);

/// The variables laid over the launcher's own environment for this worker.
Environment added_environment(const JobSpec& spec,
                              const Placement& placement,
                              const RoundFacts& facts,
                              const std::string& error_file,
                              int progress_fd);

/// The value of a variable as it may be shown. Values of launch.env count as secrets.
std::string shown_value(const JobSpec& spec, const std::string& name, const std::string& value);

/// The whole environment: the launcher's without what an outer launcher had set for its own worker,
/// then `added`.
Environment worker_environment(const JobSpec& spec, const Environment& added);

/// argv of this worker: templates filled, --local-rank=N first among the program's arguments where
/// asked for. `has_debugger`: some worker of the job.
std::vector<std::string> worker_arguments(const JobSpec& spec,
                                          const Placement& placement,
                                          bool has_debugger = false);

}  // namespace ddp::launcher
