// What the platform that started this agent tells of the job: Slurm, Kubernetes, Open MPI, or the
// mpiexec of MPICH. It fills what the user left open, and nothing else. torchrun's own variables
// (PET_*, as Kubeflow sets them) are not guesses: options.cpp reads them.
#pragma once

#include <string>
#include <vector>

#include "common/job/job_values.h"
#include "common/node/identity.h"

namespace ddp::launcher {

struct PlatformSettings {
  struct Setting {
    std::string path;
    JobValues::Setting setting;  // origin: the variable that says so
  };
  std::vector<Setting> settings;
  std::vector<std::string> notes;  // what was inferred, or why nothing was; a line each
};

/// Only keys of `job` that have their default are filled. Nothing at all with --no-auto-env and
/// --standalone, and when the user's number of nodes is another one. Pure. Errors: UsageError when
/// this agent is not the only one that the platform started on this node, unless the user gave
/// --nnodes.
PlatformSettings read_platform_settings(const Environment& environment, const JobValues& job);

/// Writes it into `job`.
void apply(const PlatformSettings& detected, JobValues& job);

}  // namespace ddp::launcher
