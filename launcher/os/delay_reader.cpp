#include "launcher/os/delay_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>

#include "common/files/files.h"
#include "launcher/os/process_state.h"
#include "launcher/plan/start/cgroups.h"

namespace ddp::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

milliseconds time_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return milliseconds(file >> number ? number : 0);
}

/// The time that the main thread has been ready and not running: the second number (kernel's
/// Documentation/scheduler/sched-stats.rst).
nanoseconds core_wait(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  std::int64_t ran = 0;
  std::int64_t waited = 0;
  return nanoseconds(file >> ran >> waited ? waited : 0);
}

/// "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS" (kernel's
/// Documentation/accounting/psi.rst).
nanoseconds disk_wait() {
  std::ifstream file("/proc/pressure/io");
  std::string line;
  std::getline(file, line);
  const std::size_t at = line.rfind("total=");
  if (at == std::string::npos) return nanoseconds(0);
  return std::chrono::microseconds(std::strtoll(line.c_str() + at + 6, nullptr, 10));
}

/// Other processors than Intel's do not count it.
nanoseconds hot(int core) {
  const std::string directory =
      "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/thermal_throttle/";
  return std::max(time_in(directory + "core_throttle_total_time_ms"),
                  time_in(directory + "package_throttle_total_time_ms"));
}

}  // namespace

/// Of its cgroups and their ancestors, v1 and v2, the one that was throttled most often. Their
/// times are sums over CPUs, so they say nothing about one process; periods do.
DelayReader::Quota DelayReader::quota_of(pid_t pid) {
  static const std::string mounts = read_file("/proc/self/mountinfo").value_or("");
  const std::string groups = read_file("/proc/" + std::to_string(pid) + "/cgroup").value_or("");
  const auto [entry, is_new] = quotas_.try_emplace(groups);
  Quota& most = entry->second;
  if (!is_new) return most;
  for (const std::string controller : {"cpu", ""}) {
    for (const std::string& directory : cgroup_directories(groups, mounts, controller)) {
      const std::string text = read_file(directory + "/cpu.stat").value_or("");
      const std::int64_t throttled = read_entry(text, "nr_throttled").value_or(0);
      if (throttled <= static_cast<std::int64_t>(most.throttled)) continue;
      most.throttled = static_cast<std::uint64_t>(throttled);
      most.periods = static_cast<std::uint64_t>(read_entry(text, "nr_periods").value_or(0));
    }
  }
  return most;
}

NodeDelays DelayReader::read(pid_t pid) {
  if (!disk_wait_) disk_wait_ = disk_wait();
  const ProcessState state = read_process_state(pid);
  const Quota quota = quota_of(pid);
  return {.core_wait = core_wait(pid),
          .quota_periods = quota.periods,
          .throttled_periods = quota.throttled,
          .disk_wait = *disk_wait_,
          .core = state.core,
          .hot = hot(state.core),
          .major_faults = state.major_faults};
}

}  // namespace ddp::launcher
