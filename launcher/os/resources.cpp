#include "launcher/os/resources.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>

#include "common/error.h"
#include "common/files/files.h"
#include "common/node/proc_gpus.h"
#include "launcher/os/cgroup.h"
#include "launcher/plan/start/cgroups.h"

namespace ddp::launcher {

namespace {

int count_mask() {
  // A fixed cpu_set_t ends at 1,024 CPUs; beyond it the call fails and wants a larger one
  // (sched_getaffinity(2)).
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(cpus));
    const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    const bool fits = ::sched_getaffinity(0, size, set) == 0;
    const int count = fits ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (fits) return std::max(1, count);
  }
  return 1;
}

/// The lowest quota of our cgroups and those above them.
std::optional<double> find_quota() {
  std::optional<double> lowest;
  const auto take = [&lowest](std::optional<double> quota) {
    if (quota && (!lowest || *quota < *lowest)) lowest = quota;
  };
  for (const std::string& directory : own_cgroups(""))
    take(read_cpu_max(read_file(directory + "/cpu.max").value_or("")));
  for (const std::string& directory : own_cgroups("cpu")) {
    take(read_cfs_quota(read_file(directory + "/cpu.cfs_quota_us").value_or(""),
                        read_file(directory + "/cpu.cfs_period_us").value_or("")));
  }
  return lowest;
}

std::optional<ProcessShortage> shortage_of_cgroups(int needed) {
  // "" is the hierarchy of v2. Each cgroup above ours limits us as well, and any of them may be
  // the one that is full.
  for (const char* const controller : {"", "pids"}) {
    for (const std::string& directory : own_cgroups(controller)) {
      const auto most = read_count(read_file(directory + "/pids.max").value_or(""));
      const auto used = read_count(read_file(directory + "/pids.current").value_or(""));
      if (!most || !used || *used + needed <= *most) continue;
      return ProcessShortage{std::max<std::int64_t>(0, *most - *used),
                             "pids.max of the cgroup " + directory + " is " +
                                 std::to_string(*most) + ", " + std::to_string(*used) + " in use"};
    }
  }
  return {};
}

/// Whether RLIMIT_NPROC does not apply: to root, and to processes with CAP_SYS_ADMIN or
/// CAP_SYS_RESOURCE (setrlimit(2), kernel/fork.c).
bool is_exempt() {
  if (::getuid() == 0) return true;
  constexpr int kSysAdmin = 21;
  constexpr int kSysResource = 24;
  std::istringstream status(read_file("/proc/self/status").value_or(""));
  for (std::string word; status >> word;) {
    if (word != "CapEff:") continue;
    std::uint64_t held = 0;
    status >> std::hex >> held;
    return ((held >> kSysAdmin) & 1) != 0 || ((held >> kSysResource) & 1) != 0;
  }
  return false;
}

/// The threads of all users, from "0.1 0.2 0.3 RUNNING/ALL PID".
std::optional<std::int64_t> count_all_threads() {
  const std::string text = read_file("/proc/loadavg").value_or("");
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return {};
  return read_count(text.substr(slash + 1, text.find(' ', slash) - slash - 1));
}

std::int64_t count_own_threads() {
  const std::string user = std::to_string(::getuid());
  std::int64_t count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    if (std::isdigit(static_cast<unsigned char>(entry.path().filename().c_str()[0])) == 0) continue;
    std::ifstream status(entry.path() / "status");  // the process may be gone
    bool is_own = false;
    for (std::string word; status >> word;) {
      std::string value;
      if (word == "Uid:") is_own = (status >> value) && value == user;
      if (word != "Threads:") continue;
      // RLIMIT_NPROC counts threads, not processes (getrlimit(2)), of the real user id, the
      // first of the line.
      if (is_own && (status >> value)) count += read_count(value).value_or(0);
      break;
    }
  }
  return count;
}

std::int64_t to_number(rlim_t limit) {
  return limit == RLIM_INFINITY ? NodeHealth::kUnlimited : static_cast<std::int64_t>(limit);
}

}  // namespace

CpuLimits find_cpu_limits() {
  return {static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), count_mask(), find_quota()};
}

int count_descriptors() {
  std::error_code ignored;
  const std::filesystem::directory_iterator entries("/proc/self/fd", ignored);
  return static_cast<int>(std::distance(begin(entries), end(entries))) - 1;  // not its own
}

int raise_descriptor_limit(int needed) {
  rlimit limit{};
  check(::getrlimit(RLIMIT_NOFILE, &limit), "getrlimit", "descriptors");
  // The soft limit is low for the sake of programs that use select(2), which ends at 1024. The
  // launcher uses epoll(7), and every process may raise it up to the hard limit (getrlimit(2)).
  if (limit.rlim_cur < static_cast<rlim_t>(needed) && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    check(::setrlimit(RLIMIT_NOFILE, &limit), "setrlimit", "descriptors");
  }
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
}

std::optional<ProcessShortage> find_process_shortage(int needed) {
  if (auto shortage = shortage_of_cgroups(needed)) return shortage;
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (!is_limited || is_exempt()) return {};
  const auto most = static_cast<std::int64_t>(limit.rlim_cur);
  // Reading all of /proc takes milliseconds, and most limits are far away.
  if (count_all_threads().value_or(most) + needed <= most) return {};
  const std::int64_t used = count_own_threads();
  if (used + needed <= most) return {};
  return ProcessShortage{std::max<std::int64_t>(0, most - used),
                         "the limit of processes of this user is " + std::to_string(most) +
                             " (ulimit -u), " + std::to_string(used) + " in use"};
}

std::string make_id() {
  return random_hex(16);
}

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
