// Settings of the job from the platform that started this agent: Slurm, Kubernetes, Open MPI, or
// the mpiexec of MPICH. They fill only keys that the user left open. torchrun's own variables
// (PET_*, as Kubeflow sets them) are not among them: command_line/options reads those.
#pragma once

#include <string>
#include <vector>

#include "common/job/job_values.h"
#include "common/node/environment.h"

namespace ddp::launcher {

struct PlatformSettings {
  struct Setting {
    std::string path;
    JobValues::Setting setting;  // origin: the variable with the value
  };
  std::vector<Setting> settings;
  std::vector<std::string> notes;  // what was taken, or why nothing was; a line each
};

/// Fills only keys of `job` that have their default. Fills nothing with --no-auto-env or
/// --standalone, or if the user gave another number of nodes. Pure. Errors: UsageError when this
/// agent is not the only one that the platform started on this node, unless the user gave --nnodes.
PlatformSettings read_platform_settings(const Environment& environment, const JobValues& job);

/// Writes the settings into `job`.
void apply(const PlatformSettings& detected, JobValues& job);

}  // namespace ddp::launcher
