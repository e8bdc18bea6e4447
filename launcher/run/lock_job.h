// The lock of a job whose run id the user gave: no second agent of the same node rank on this
// machine.
#pragma once

#include <filesystem>
#include <optional>

#include "common/node/identity.h"
#include "launcher/os/job_lock.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// To be held from before a run directory is chosen to the end; nothing: the user gave no run id,
/// or, of several nodes, no node rank.
/// `environment` is our own; `place` is that of make_scratch_place(). Errors: SystemError, 202 when
/// an agent holds it.
std::optional<JobLock> lock_job(const JobSpec& spec,
                                const Environment& environment,
                                const std::filesystem::path& place);

}  // namespace ddp::launcher
