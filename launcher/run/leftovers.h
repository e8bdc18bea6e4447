// What the workers of this node leave behind, for the user: a line names it once, and whether it is
// killed or left running (--keep-daemons). run/worker_group finds and kills it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "launcher/os/cgroup.h"
#include "launcher/plan/start/kept_daemons.h"
#include "launcher/run/console.h"

namespace ddp::launcher {

class Leftovers {
 public:
  /// `cgroup` and `console` outlive it. Precondition: the patterns are right.
  Leftovers(const std::vector<std::string>& patterns, const JobCgroup& cgroup, Console& console);

  /// Whether any process may be left running.
  [[nodiscard]] bool keeps_any() const { return !kept_.is_empty(); }
  /// Whether `pid` may be.
  [[nodiscard]] bool keeps(pid_t pid) const;
  /// Of `orphans` and their descendants those that are left running, and the descendants of these.
  [[nodiscard]] std::vector<pid_t> kept(std::span<const pid_t> orphans) const;

  /// Prints one line about orphans that no earlier line has named, and removes those that stay
  /// running from the job's cgroup. No rank: it is not known. A rank that failed or was stopped
  /// takes its processes along: then only those that stay running are named.
  void report_and_release(std::optional<int> rank,
                          std::span<const pid_t> orphans,
                          bool has_ended_well);

 private:
  const KeptDaemons kept_;
  const JobCgroup& cgroup_;
  Console& console_;
  std::set<pid_t> named_;
};

}  // namespace ddp::launcher
