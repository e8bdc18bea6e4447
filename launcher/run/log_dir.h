// A directory of this job for logs and error files in torchrun's layout.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/plan/job_spec.h"

namespace ddp::launcher {

/// Makes DIR/ID_RANDOM when the job wants one, DIR being --log-dir, or the temporary directory when
/// streams go to files and no directory was named. Absolute; empty when none is wanted. Errors:
/// UsageError when it cannot be made.
std::filesystem::path make_log_dir(const JobSpec& spec, const std::string& user_run_id);

}  // namespace ddp::launcher
