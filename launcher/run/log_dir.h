// A directory of this job for logs and error files in torchrun's layout: DIR/ID_RANDOM, where ID is
// the run id that the user gave. Each job has one of its own, so that two jobs never write into the
// same files; plan/start/log_layout names the files in it.
#pragma once

#include <memory>
#include <string>

#include "common/files/owned_dir.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// Makes DIR/ID_RANDOM and prints its path. DIR is --log-dir, or the temporary directory when
/// streams go to files and no directory was named. The path is absolute. Null: the job needs no
/// such directory. Errors: UsageError when it cannot be made.
std::shared_ptr<const OwnedDir> make_log_dir(const JobSpec& spec, const std::string& user_run_id);

}  // namespace ddp::launcher
