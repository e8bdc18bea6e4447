// Facts about a dead worker that neither its exit status nor its own words tell: killed for lack of
// memory, what the kernel log says, where its core file is, a full /dev/shm or disk. Everything is
// optional: what cannot be read (a container, another user's log) is not said.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/plan/exit_status.h"

namespace ddp::launcher {

/// What a later look is compared with; taken before the worker starts.
struct Baseline {
  std::uint64_t oom_kills = 0;          // in our cgroup and below
  std::chrono::microseconds uptime{0};  // older lines of the kernel log are about others
};

Baseline take_baseline();

struct DeadWorker {
  ExitStatus status;
  pid_t pid = 0;
  std::string executable;           // path
  std::filesystem::path directory;  // where it ran
};

/// One line for each fact. Blocks: for a look at files of the kernel. Errors: none.
std::vector<std::string> post_mortem(const DeadWorker& worker, const Baseline& before);

/// The newest line of the kernel log since then that says that a GPU is broken; empty: none does.
std::string find_gpu_error(const Baseline& before);

}  // namespace ddp::launcher
