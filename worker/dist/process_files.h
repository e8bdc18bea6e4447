// What /proc tells of another process.
#pragma once

#include <string>
#include <vector>

namespace ddp::worker {

/// The text of /proc/PID/`name`; empty if it cannot be read: the process is gone, or it is another
/// user's.
std::string read_process_file(int pid, const std::string& name);

/// The fields of /proc/PID/stat behind the program's name: state, parent, and so on (proc(5)). No
/// fields: there is no such process.
std::vector<std::string> process_stat(int pid);

/// Whether process `pid` was started for the job `run_id` (DDP_RUN_ID). Empty, as under another
/// launcher: by the parent of this process. False where nobody can tell.
bool is_of_same_job(int pid, const std::string& run_id);

}  // namespace ddp::worker
