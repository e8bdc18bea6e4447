// The ranks that srun or mpirun give to a worker that no agent started, in torchrun's words.
#pragma once

#include <string>

#include "common/node/environment.h"

namespace ddp {

struct PlatformRanks {
  std::string platform;   // "Slurm", "Open MPI", "PMI"; empty: none of them, or world size 1
  Environment variables;  // RANK, WORLD_SIZE, LOCAL_RANK, ...; MASTER_ADDR and _PORT where known
  std::string problem;    // an incomplete or contradictory set
};

/// Open MPI and the mpiexec of MPICH come before Slurm, as they start their own helpers by srun,
/// and their programs inherit the variables of those. Pure.
PlatformRanks read_platform_ranks(const Environment& environment);

}  // namespace ddp
