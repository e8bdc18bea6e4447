// Whether another process of this node belongs to the same job as this one.
#pragma once

#include <string>

namespace ddp::worker {

/// Whether process `pid` was started for the job `run_id` (DDP_RUN_ID). Empty, as under another
/// launcher: by the parent of this process. False where nobody can tell.
bool is_of_same_job(int pid, const std::string& run_id);

}  // namespace ddp::worker
