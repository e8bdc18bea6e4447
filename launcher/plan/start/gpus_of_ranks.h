// Whether this node has the GPUs that its ranks ask for. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// Why no GPU can be used on this node, and what to do: a sentence or two. Precondition: it has
/// none that is visible.
std::string describe_missing_gpus(const JobSpec& spec);

/// Adds a problem when there are too few, and a warning where CUDA_VISIBLE_DEVICES names one that
/// is not there.
void check_gpus(JobSpec& spec, std::vector<std::string>& problems);

}  // namespace ddp::launcher
