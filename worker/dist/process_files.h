// Reads another process's files in /proc.
#pragma once

#include <string>
#include <vector>

namespace ddp::worker {

/// The text of /proc/PID/`name`; empty if it cannot be read: the process is gone, or it is another
/// user's.
std::string read_process_file(int pid, const std::string& name);

/// The fields of /proc/PID/stat after the program's name: state, parent, and so on (proc(5)).
/// Empty: there is no such process.
std::vector<std::string> process_stat(int pid);

/// Whether process `pid` was started for the job `run_id` (DDP_RUN_ID). Without a run id, as under
/// another launcher: whether it has the same parent as this process. False if that cannot be found
/// out.
bool is_of_same_job(int pid, const std::string& run_id);

}  // namespace ddp::worker
