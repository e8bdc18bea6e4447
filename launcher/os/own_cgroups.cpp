#include "launcher/os/own_cgroups.h"

#include "common/files.h"
#include "launcher/plan/cgroups.h"

namespace ddp::launcher {

std::vector<std::string> own_cgroups(std::string_view controller) {
  static const std::string membership = read_file("/proc/self/cgroup").value_or("");
  static const std::string mounts = read_file("/proc/self/mountinfo").value_or("");
  return cgroup_directories(membership, mounts, controller);
}

}  // namespace ddp::launcher
