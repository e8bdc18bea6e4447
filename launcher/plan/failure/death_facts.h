// What the kernel log, the core pattern and file systems show about a dead worker. Pure:
// os/post_mortem reads them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::launcher {

/// The text of a record of /dev/kmsg, "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT\n...". Nothing: it
/// is not a record. Source: the kernel's Documentation/ABI/testing/dev-kmsg.
std::optional<std::string> read_kernel_record(std::string_view record);

/// What a line of the kernel log says about process `pid`: killed for lack of memory, a fault that
/// the kernel saw, an error of a GPU (NVRM Xid). Empty: nothing.
std::string kernel_fact(std::string_view line, pid_t pid);

/// Whether a line of the kernel log says that a GPU itself is broken: memory errors that were not
/// corrected, a lost link or bus, dead firmware. Programs cause the other Xids. Source: NVIDIA,
/// "Xid Errors", table of causes.
bool is_gpu_broken(std::string_view line);

/// The process that dumped core.
struct CoreFacts {
  pid_t pid = 0;
  int signal = 0;
  uid_t user = 0;
  gid_t group = 0;
  std::string host;
  std::string executable;  // path
  std::string directory;   // its working directory
};

/// The path of a core file by the text of core_pattern, with '*' where only the kernel knows a
/// part. `uses_pid` is core_uses_pid. Precondition: no pipe. Source: core(5).
std::string core_path(std::string_view pattern, bool uses_pid, const CoreFacts& facts);

/// Space of a file system, in bytes.
struct Space {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
};

/// A hint after SIGBUS: shared memory is full, or as small as containers make it. Empty: neither.
std::string shared_memory_fact(const Space& space);

}  // namespace ddp::launcher
