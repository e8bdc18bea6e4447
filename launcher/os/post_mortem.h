// Facts about a dead worker that neither its exit status nor its output shows: killed for lack of
// memory, lines of the kernel log, its core file, a full /dev/shm or disk. All are optional:
// sources that cannot be read (in a container, another user's log) are skipped.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/plan/exit_status.h"

namespace ddp::launcher {

/// The state before the worker starts, to compare with later.
struct Baseline {
  std::uint64_t oom_kills = 0;          // in our cgroup and below
  std::chrono::microseconds uptime{0};  // older lines of the kernel log are not ours
};

Baseline take_baseline();

struct DeadWorker {
  ExitStatus status;
  pid_t pid = 0;
  std::string executable;           // path
  std::filesystem::path directory;  // working directory
};

/// One line per fact. Blocks: for reads of kernel files. Errors: none.
std::vector<std::string> post_mortem(const DeadWorker& worker, const Baseline& before);

/// The newest line of the kernel log since `before` that reports a broken GPU; empty: none.
std::string find_gpu_error(const Baseline& before);

}  // namespace ddp::launcher
