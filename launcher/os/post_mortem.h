// Facts about a dead worker that neither its exit status nor its output shows: killed for lack of
// memory, lines of the kernel log, its core file, a full /dev/shm or disk. All are optional:
// sources that cannot be read (in a container, another user's log) are skipped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/files/descriptor.h"
#include "launcher/plan/exit_status.h"

namespace ddp::launcher {

/// The kernel log from some moment on. To read it from its oldest line takes 3 us a line.
class KernelLog {
 public:
  /// Without the right to read the log it has no lines.
  static KernelLog from_now();
  /// All lines so far, but for those that newer ones have overwritten. Blocks: for reads.
  const std::vector<std::string>& lines();

 private:
  Descriptor log_;
  std::vector<std::string> lines_;
};

/// The state before the worker starts, to compare with later.
struct Baseline {
  std::uint64_t oom_kills = 0;  // in our cgroup and below
  KernelLog kernel_log;
};

Baseline take_baseline();

struct DeadWorker {
  ExitStatus status;
  pid_t pid = 0;
  std::string executable;           // path
  std::filesystem::path directory;  // working directory
};

/// One line per fact. Blocks: for reads of kernel files. Errors: none.
std::vector<std::string> post_mortem(const DeadWorker& worker, Baseline& before);

/// The newest line of the kernel log since `before` that reports a broken GPU; empty: none.
std::string find_gpu_error(Baseline& before);

}  // namespace ddp::launcher
