// The lock of a job whose run id the user gave: no second agent of the same node rank on this
// machine.
#pragma once

#include <filesystem>
#include <optional>

#include "common/node/identity.h"
#include "launcher/os/job_lock.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// Takes the lock, to be held from before the run directory is chosen until the end. Nothing: the
/// user gave no run id, or several nodes but no node rank. `environment` is our own; `place` comes
/// from make_scratch_place(). Errors: SystemError, 202 when another agent holds the lock.
std::optional<JobLock> lock_job(const JobSpec& spec,
                                const Environment& environment,
                                const std::filesystem::path& place);

}  // namespace ddp::launcher
