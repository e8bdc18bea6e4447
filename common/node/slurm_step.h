// What Slurm's variables show a task (a process that srun started) of its step. Both programs use
// it: an agent that is the only task of its node, and a worker that is a task itself.
#pragma once

#include <cstdint>
#include <string>

#include "common/node/environment.h"

namespace ddp {

struct SlurmStep {
  std::uint64_t job = 0;
  std::uint64_t step = 0;
  int nodes = 1;
  int node = 0;  // of the node list, from 0
  int tasks = 1;
  int task = 0;
  int tasks_here = 1;      // on this node
  int task_here = 0;       // among those
  std::string first_node;  // where task 0 runs
  int gpus = 0;            // of this node; 0: not known

  bool operator==(const SlurmStep&) const = default;
};

struct SlurmFacts {
  bool in_step = false;  // `step` counts
  SlurmStep step;
  int job_nodes = 0;    // nodes of the job, outside of a step (batch script); 0: no job
  std::string problem;  // in a step: incomplete, not a number, or contradictory
};

/// Pure. A step that is a user's shell (salloc, batch script) does not count.
SlurmFacts read_slurm(const Environment& environment);

/// A port that two steps on one node do not share: 20000 + (job + 997 * step) modulo 10000, which
/// is below the ports that Linux gives to clients.
int slurm_port(const SlurmStep& step);

/// "slurm-7.0"
std::string slurm_run_id(const SlurmStep& step);

}  // namespace ddp
