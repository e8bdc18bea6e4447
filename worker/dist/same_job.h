// Tells whether another process of this node belongs to this process's job.
#pragma once

#include <string>

namespace ddp::worker {

/// Whether process `pid` was started for the job `run_id` (DDP_RUN_ID). Without a run id, as under
/// another launcher: whether it has the same parent as this process. False if that cannot be found
/// out.
bool is_of_same_job(int pid, const std::string& run_id);

}  // namespace ddp::worker
