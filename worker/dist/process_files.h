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

}  // namespace ddp::worker
