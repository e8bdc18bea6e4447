#include "launcher/os/own_cgroups.h"

#include <map>

#include "common/files/files.h"
#include "launcher/plan/start/cgroups.h"

namespace ddp::launcher {

const std::vector<std::string>& own_cgroups(const std::string& controller) {
  static const std::string proc_cgroup = read_file("/proc/self/cgroup").value_or("");
  static const std::string mounts = read_file("/proc/self/mountinfo").value_or("");
  static std::map<std::string, std::vector<std::string>> known;
  const auto [entry, is_new] = known.try_emplace(controller);
  if (is_new) entry->second = cgroup_directories(proc_cgroup, mounts, controller);
  return entry->second;
}

}  // namespace ddp::launcher
