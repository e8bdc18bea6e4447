#include "launcher/os/node_health.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "common/node/node_gpus.h"

namespace ddp::launcher {
namespace {

std::int64_t to_number(rlim_t limit) {
  return limit == RLIM_INFINITY ? NodeHealth::kUnlimited : static_cast<std::int64_t>(limit);
}

}  // namespace

NodeHealth read_node_health() {
  NodeHealth health;
  utsname name{};
  if (::uname(&name) == 0) {
    health.kernel = name.release;
    health.machine = name.machine;
  }
  struct sysinfo system {};
  if (::sysinfo(&system) == 0) {
    // Counted in units of mem_unit bytes, which need not be 1 (sysinfo(2)).
    health.memory_bytes = static_cast<std::int64_t>(system.totalram) * system.mem_unit;
  }
  struct statvfs shared {};
  // Data loaders pass batches through /dev/shm, which has 64 MiB in a container unless it asks for
  // more. f_blocks counts fragments of f_frsize, not blocks of f_bsize (statvfs(3)).
  if (::statvfs("/dev/shm", &shared) == 0)
    health.shared_bytes = static_cast<std::int64_t>(shared.f_blocks * shared.f_frsize);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    health.open_files = to_number(limit.rlim_cur);
    health.most_open_files = to_number(limit.rlim_max);
  }
  if (::getrlimit(RLIMIT_NPROC, &limit) == 0) health.processes = to_number(limit.rlim_cur);
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) health.locked_bytes = to_number(limit.rlim_cur);
  health.driver = find_gpu_driver();
  return health;
}

}  // namespace ddp::launcher
